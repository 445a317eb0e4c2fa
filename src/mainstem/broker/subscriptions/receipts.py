"""Receipts: what a client without a connection of its own holds of a message that it pulled.

A receipt is good until the message is settled, given back, or its lease ends; then another object stands for the message, and
the receipt has no effect. Receipts are in memory: after a restart every message that was not settled is given out again.
The leases themselves are the subscription's (`pulling`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from mainstem.broker.queues import Message, Queue, Queues
from mainstem.broker.subscriptions.pulling import Pulling, PullRequest
from mainstem.model.errors import Overloaded

RECEIPTS_MAX = 100_000
"""Messages that clients may have at the same time."""
SWEPT_MIN = 1_024
"""From this many receipts on, those that are good no more are looked for."""


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


class Retry(NamedTuple):
    """A message to be given out again, after a time."""

    receipt: str
    after_ms: int = 0
    error: str = ""


class Rejection(NamedTuple):
    """A message to be given up."""

    receipt: str
    reason: str = ""


class Renewal(NamedTuple):
    """A message that is worked on for longer."""

    receipt: str
    lease_ms: int


class Settled(NamedTuple):
    """What came of a request to settle."""

    done: int
    unknown: list[str]
    """Receipts that are good no more, or never were."""


class Receipts:
    """Of all queues."""

    def __init__(
        self,
        queues: Queues,
        pulling: Pulling,
        receipts_max: int = RECEIPTS_MAX,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._queues = queues
        self._pulling = pulling
        self._receipts_max = receipts_max
        self._prefix = random(6).hex()
        """A receipt of an earlier run is no receipt of this one."""
        self._number = 0
        self._known: dict[str, Receipt] = {}
        self._sweep_at = SWEPT_MIN

    async def receive(self, queue: Queue, request: PullRequest, lease_ms: int) -> list[Receipt]:
        """Pull messages for a time. Raises Overloaded, and what `Pulling.take` raises."""
        self._sweep(request.messages_max)
        room = self._receipts_max - len(self._known)
        if room <= 0:
            raise Overloaded(f"{len(self._known)} messages are with clients that have not settled them")
        request = request._replace(messages_max=min(request.messages_max, room), lease_ms=lease_ms)
        messages = await self._pulling.take(queue, request)
        until_ms = self._queues.now_ms() + lease_ms
        return [self._issue(queue, message, until_ms) for message in messages]

    def _issue(self, queue: Queue, message: Message, until_ms: int) -> Receipt:
        self._number += 1
        receipt = Receipt(f"{self._prefix}-{self._number:x}", queue, message, until_ms)
        self._known[receipt.id] = receipt
        return receipt

    def _sweep(self, more: int) -> None:
        """Forget receipts whose lease has ended, once there are twice as many as there were good ones."""
        if len(self._known) + more > min(self._sweep_at, self._receipts_max):
            self._known = {name: receipt for name, receipt in self._known.items() if receipt.is_good}
            self._sweep_at = max(SWEPT_MIN, 2 * len(self._known))

    def find(self, queue: Queue, receipt_id: str) -> Receipt | None:
        """A receipt that is still good."""
        receipt = self._known.get(receipt_id)
        if receipt is None or receipt.queue is not queue:
            return None
        if not receipt.is_good:
            del self._known[receipt_id]
            return None
        return receipt

    async def settle(
        self,
        queue: Queue,
        *,
        accept: Iterable[str] = (),
        retry: Iterable[Retry] = (),
        reject: Iterable[Rejection] = (),
        renew: Iterable[Renewal] = (),
    ) -> Settled:
        """Do all of it; durable when answered."""
        settling = self._queues.settling
        settled = _Tally(self, queue)
        settling.settle([message for one in accept for message in settled.redeem(one)])
        for wish in retry:
            self._pulling.retry_after(settled.redeem(wish.receipt), wish.after_ms, wish.error)
        for rejection in reject:
            settling.reject(settled.redeem(rejection.receipt), "rejected", rejection.reason)
        for renewal in renew:
            receipt = settled.find(renewal.receipt)
            if receipt is not None:
                receipt.until_ms = self._queues.now_ms() + renewal.lease_ms
                self._pulling.renew([receipt.message], renewal.lease_ms)
        await self._queues.outbox.wait_durable()
        return Settled(settled.done, settled.unknown)

    def forget(self, receipt: Receipt) -> None:
        """The client has said what became of the message."""
        self._known.pop(receipt.id, None)


class _Tally:
    """What one request names, and which of it is good."""

    def __init__(self, receipts: Receipts, queue: Queue) -> None:
        self._receipts = receipts
        self._queue = queue
        self.done = 0
        self.unknown: list[str] = []

    def find(self, receipt_id: str) -> Receipt | None:
        receipt = self._receipts.find(self._queue, receipt_id)
        if receipt is None:
            self.unknown.append(receipt_id)
        else:
            self.done += 1
        return receipt

    def redeem(self, receipt_id: str) -> list[Message]:
        """The message, if the receipt is good; it is good no more."""
        receipt = self.find(receipt_id)
        if receipt is None:
            return []
        self._receipts.forget(receipt)
        return [receipt.message]
