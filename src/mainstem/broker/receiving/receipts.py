"""Receipts: what a client holds of a message that it was given for a time.

A receipt is good until the message is settled, given back, or its lease ends; then another object stands for the message, and
the receipt has no effect. Receipts are in memory: after a restart every message that was not settled is given out again.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable

import msgspec

from mainstem.broker.queues import Message, Queue, Queues

RECEIPTS_MAX = 100_000
"""Messages that clients may have at the same time."""
LEASE_ENDED = "its lease ended"


class Receipt(msgspec.Struct, eq=False):
    """A message that a client has."""

    id: str
    queue: Queue
    message: Message
    until_ms: int

    @property
    def is_good(self) -> bool:
        """Whether the client still has it."""
        message = self.message
        return not message.lane.is_gone and message.lane.unsettled.get(message.offset) is message


class Receipts:
    """Of all queues."""

    def __init__(self, queues: Queues, receipts_max: int = RECEIPTS_MAX, random: Callable[[int], bytes] = os.urandom):
        self._queues = queues
        self._receipts_max = receipts_max
        self._prefix = random(6).hex()
        """A receipt of an earlier run is no receipt of this one."""
        self._number = 0
        self._known: dict[str, Receipt] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._known)

    @property
    def room(self) -> int:
        """How many more there may be."""
        return self._receipts_max - len(self._known)

    def issue(self, queue: Queue, messages: Iterable[Message], lease_ms: int) -> list[Receipt]:
        """The messages are a client's for this time."""
        until_ms = self._queues.now_ms() + lease_ms
        issued = []
        for message in messages:
            self._number += 1
            receipt = Receipt(f"{self._prefix}-{self._number:x}", queue, message, until_ms)
            self._known[receipt.id] = receipt
            self._arm(receipt)
            issued.append(receipt)
        return issued

    def find(self, queue: Queue, receipt_id: str) -> Receipt | None:
        """A receipt that is still good."""
        receipt = self._known.get(receipt_id)
        if receipt is None or receipt.queue is not queue:
            return None
        if not receipt.is_good:
            self._forget(receipt)
            return None
        return receipt

    def redeem(self, queue: Queue, receipt_id: str) -> Message | None:
        """The message, which is settled or given back now: the receipt is good no more."""
        receipt = self.find(queue, receipt_id)
        if receipt is None:
            return None
        self._forget(receipt)
        return receipt.message

    def renew(self, receipt: Receipt, lease_ms: int) -> None:
        """The client has it for this time, from now on."""
        receipt.until_ms = self._queues.now_ms() + lease_ms
        self._queues.timers.forget(receipt)
        self._arm(receipt)
        receipt.queue.renew([receipt.message])

    def _arm(self, receipt: Receipt) -> None:
        self._queues.timers.at(receipt.until_ms, receipt, functools.partial(self._end, receipt))

    def _forget(self, receipt: Receipt) -> None:
        self._known.pop(receipt.id, None)
        self._queues.timers.forget(receipt)

    def _end(self, receipt: Receipt) -> None:
        """Its time is over: the message waits again, as another object."""
        if self._known.pop(receipt.id, None) is None or not receipt.is_good:
            return
        message = receipt.message
        again = message.again()
        message.lane.unsettled[message.offset] = again
        self._queues.settling.requeue([again], failed=True, error=LEASE_ENDED)
