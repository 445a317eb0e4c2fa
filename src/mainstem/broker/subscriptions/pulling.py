"""Pulling from a queue or a subscription of a topic: some messages, each for a time; what is not settled by then comes back.

A caller that pulls is a consumer for a moment. So the order of keys, priorities and selection hold for both kinds of consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mainstem.broker.clock import Clock
from mainstem.broker.queues import Message, Queue, Queues
from mainstem.broker.queues.delivery.consumers import ROOM_BYTES_MAX
from mainstem.coordination.errors import QueueLocked, UnknownQueue, UnsuitableSource
from mainstem.storage.answer import Answer

__all__ = ["PullRequest", "Pulling"]


class PullRequest(NamedTuple):
    """What somebody wants."""

    messages_max: int = 1
    bytes_max: int = ROOM_BYTES_MAX
    """One message at least is given, however large."""
    lease_ms: int | None = None
    """How long it may work on them. None: as the rules of the queue say, or until it gives them back."""
    wait_s: float = 0.0
    """How long to wait for a first message."""
    wants: Callable[[Message], bool] | None = None
    """Which of them; others stay for others. Always the same answer for the same message."""


class Pulling:
    """Of all queues."""

    def __init__(self, clock: Clock, queues: Queues) -> None:
        self._clock = clock
        self._queues = queues
        self._settling = queues.settling

    async def take(self, queue: Queue, request: PullRequest) -> list[Message]:
        """What is free, in order. Each is to be settled, renewed, given back or rejected.

        Raises QueueBusy, QueueLocked, UnsuitableSource; UnknownQueue where it was deleted meanwhile.
        """
        _check(queue)
        await self._queues.open(queue)
        puller = _Puller(request)
        queue.attach(puller, request.wants)
        timer = None
        try:
            if request.wait_s > 0:
                timer = self._clock.call_later(request.wait_s, puller.finish)
            else:
                queue.when_looked(puller.finish)
            await puller.answer
        except BaseException:
            queue.give_back(puller.taken)  # The caller has gone.
            raise
        finally:
            if timer is not None:
                timer.cancel()
            queue.detach(puller)
        if puller.is_cancelled:
            raise UnknownQueue(f"{queue.name} was deleted")
        if request.lease_ms is not None:
            self.renew(puller.taken, request.lease_ms)
        return puller.taken

    def renew(self, messages: Iterable[Message], lease_ms: int) -> None:
        """They are worked on for this time from now on, whatever was said before. Those that are not held are passed over."""
        by_lane: dict[object, list[Message]] = {}
        for message in messages:
            by_lane.setdefault(message.lane, []).append(message)
        for held in by_lane.values():
            self._settling.lease(held[0].lane, held, lease_ms)

    def retry_after(self, messages: Iterable[Message], delay_ms: int, error: str = "") -> None:
        """They failed: give them out again after this time, or as the retry policy says where it is 0."""
        self._settling.requeue(messages, failed=True, delay_ms=delay_ms, error=error)


def _check(queue: Queue) -> None:
    if queue.readers is not None:
        raise UnsuitableSource(f"{queue.name} is a stream: its messages stay, read the records of its topic")
    if queue.properties.auto_delete:
        raise UnsuitableSource(
            f"queue {queue.name} goes when its last consumer leaves, and a request is no lasting one"
        )
    if queue.properties.exclusive:
        raise QueueLocked(f"queue {queue.name} is for the connection that declared it")


class _Puller:
    """A consumer that takes one portion."""

    is_exclusive = False
    priority = 0

    def __init__(self, request: PullRequest) -> None:
        self.room = request.messages_max
        self.room_bytes = request.bytes_max
        self.taken: list[Message] = []
        self.is_cancelled = False
        self.answer: Answer[None] = Answer()

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """Take them; what else is given in the same turn comes along."""
        self.taken += messages
        self.room -= len(messages)
        self.room_bytes = max(self.room_bytes - sum(len(message.value) for message in messages), 0)
        if not self.room_bytes:
            self.room = 0
        self.finish()

    def cancelled(self) -> None:
        """The queue is gone."""
        self.room = 0
        self.is_cancelled = True
        self.finish()

    def activated(self, is_active: bool) -> None:
        """It makes no difference."""

    def finish(self) -> None:
        """Answer with what there is."""
        if not self.answer.done:
            self.answer.resolve(None)
