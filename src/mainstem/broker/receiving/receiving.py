"""Receive and settle: a client takes messages of a queue for a time, and says by their receipts what became of them.

A request that receives is a consumer of the queue for as long as it waits. So it is served in turn with consumers of every
protocol, and what holds for them holds for it: pauses, priorities, one consumer at a time, one consumer for a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from mainstem.broker.queues import Message, Queue, Queues
from mainstem.broker.receiving.receipts import Receipt, Receipts
from mainstem.coordination.errors import QueueLocked, UnknownQueue, UnsuitableSource
from mainstem.model.errors import Overloaded

RECEIVE_BYTES_MAX = 4 << 20
"""Of one request, but for a single message that is larger."""
READING_S = 2.0
"""How long a request that does not want to wait is kept while messages are read into memory."""


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


class _Taker:
    """The consumer that one request is."""

    is_exclusive = False

    def __init__(self, room: int) -> None:
        self.priority = 0
        self.room = room
        self.room_bytes = RECEIVE_BYTES_MAX
        self.taken: list[Message] = []
        self.is_cancelled = False
        self.given = asyncio.Event()

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """Take them."""
        self.taken += messages
        self.room = max(0, self.room - len(messages))
        self.room_bytes -= sum([len(message.value) for message in messages])
        if self.room_bytes <= 0:
            self.room = 0
        self.given.set()

    def cancelled(self) -> None:
        """The queue is gone."""
        self.is_cancelled = True
        self.given.set()

    def activated(self, is_active: bool) -> None:
        """Nothing follows from it."""


class Receiving:
    """From all queues."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self.receipts = Receipts(queues)

    async def receive(self, queue: Queue, count: int, lease_ms: int, wait_s: float = 0.0) -> list[Receipt]:
        """Up to so many messages. Raises QueueBusy, QueueLocked, UnknownQueue, UnsuitableSource, Overloaded."""
        self._check(queue)
        await self._queues.open(queue)
        taker = _Taker(min(count, self.receipts.room))
        if taker.room <= 0:
            raise Overloaded(f"{self.receipts.count} messages are with clients that have not settled them")
        queue.attach(taker)
        try:
            async with asyncio.timeout(max(wait_s, READING_S if queue.ready_count else 0.0)):
                await taker.given.wait()
        except TimeoutError:
            pass
        except BaseException:
            queue.detach(taker)
            queue.give_back(taker.taken)
            raise
        queue.detach(taker)
        if taker.is_cancelled:
            raise UnknownQueue(f"queue {queue.name} was deleted")
        return self.receipts.issue(queue, taker.taken, lease_ms)

    def _check(self, queue: Queue) -> None:
        if queue.readers is not None:
            raise UnsuitableSource(f"{queue.name} is a stream: its messages stay, read the records of its topic")
        if queue.properties.auto_delete:
            raise UnsuitableSource(
                f"queue {queue.name} goes when its last consumer leaves, and a request is no lasting one"
            )
        if queue.properties.exclusive:
            raise QueueLocked(f"queue {queue.name} is for the connection that declared it")

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
        receipts, settling = self.receipts, self._queues.settling
        unknown: list[str] = []
        accepted: list[Message] = []
        done = 0
        for receipt_id in accept:
            message = receipts.redeem(queue, receipt_id)
            if message is None:
                unknown.append(receipt_id)
            else:
                accepted.append(message)
        settling.settle(accepted)
        for wish in retry:
            message = receipts.redeem(queue, wish.receipt)
            if message is None:
                unknown.append(wish.receipt)
            else:
                done += 1
                settling.requeue([message], failed=True, delay_ms=wish.after_ms, error=wish.error)
        for rejection in reject:
            message = receipts.redeem(queue, rejection.receipt)
            if message is None:
                unknown.append(rejection.receipt)
            else:
                done += 1
                settling.reject([message], "rejected", rejection.reason)
        for renewal in renew:
            receipt = receipts.find(queue, renewal.receipt)
            if receipt is None:
                unknown.append(renewal.receipt)
            else:
                done += 1
                receipts.renew(receipt, renewal.lease_ms)
        await self._queues.outbox.wait_durable()
        return Settled(done + len(accepted), unknown)
