"""What becomes of messages that were given out: settled, given back, or given up. In memory at once, stored with the outbox."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from mainstem.broker.queues.settling.dead_lettering import DeadLettering, Reason
from mainstem.coordination.queues.deaths import ERROR_BYTES_MAX, Attempt
from mainstem.coordination.subscriptions.cursor import Counts
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.publishing.outbox import Outbox, Put
    from mainstem.broker.queues.queue import Queue, QueueLane
    from mainstem.broker.queues.timers import Timers

UNROUTED_PAUSE_MS = 5_000
"""How long a dead letter that must not be lost waits when it finds no queue."""


class Settling:
    """Of all queues."""

    def __init__(self, now_ms: Callable[[], int], outbox: Outbox, timers: Timers, dead: DeadLettering) -> None:
        self._now_ms = now_ms
        self._outbox = outbox
        self._timers = timers
        self._dead = dead

    def settle(self, messages: Iterable[Message]) -> None:
        """They are done with. What is not given out is passed over."""
        messages = list(messages)
        if not messages:
            return
        if self._outbox.is_whole:
            self._outbox.lay_off([one for one in messages if one.lane.unsettled.get(one.offset) is one])
        lane: QueueLane = messages[0].lane
        settled = lane.settle(messages)
        if settled:
            lane.queue.acknowledged += settled
            self._changed(lane)
        if settled < len(messages):
            others: dict[QueueLane, list[Message]] = {}
            for message in messages:
                if message.lane is not lane:
                    others.setdefault(message.lane, []).append(message)
            for other, its_own in others.items():
                count = other.settle(its_own)
                if count:
                    other.queue.acknowledged += count
                    self._changed(other)

    def requeue(self, messages: Iterable[Message], *, failed: bool = True, delay_ms: int = 0, error: str = "") -> None:
        """Back to their places, to be given out again: at once, or after a delay; given up if that was once too often."""
        attempt = _attempt(self._now_ms(), error) if failed else None
        back: dict[QueueLane, list[Message]] = {}
        spent: list[Message] = []
        for message in messages:
            lane: QueueLane = message.lane
            if lane.unsettled.get(message.offset) is not message:
                continue
            del lane.unsettled[message.offset]
            message.failures += failed
            self._count(message)
            if attempt is not None:
                lane.tried(message.offset, attempt)
            wait_ms, is_spent = self._judge(message, failed, delay_ms)
            if is_spent:
                lane.unsettled[message.offset] = message
                spent.append(message)
            elif wait_ms:
                self.rest(message, self._now_ms() + wait_ms)
            else:
                back.setdefault(lane, []).append(message)
        for lane, returned in back.items():
            lane.take_back(returned)
            lane.queue.redelivered += len(returned)
            self._changed(lane)
            lane.queue.returned()
            lane.queue.wake()
        if spent:
            self.reject(spent, "delivery_limit", error)

    def _count(self, message: Message) -> None:
        """It was given out, and comes back."""
        message.deliveries += 1
        message.lane.cursor.count(message.offset, Counts(message.deliveries, message.failures))

    def _judge(self, message: Message, failed: bool, delay_ms: int) -> tuple[int, bool]:
        """How long it is to rest, and whether it was given out too often."""
        rules = message.lane.queue.rules
        limit = rules.deliveries_max
        if limit is not None and message.failures > limit:
            return 0, True
        if failed and not delay_ms and rules.retry is not None and message.failures:
            wait_ms = rules.retry.next_delay_ms(message.failures, random.random)
            return (0, True) if wait_ms is None else (wait_ms, False)
        return delay_ms, False

    def reject(self, messages: Iterable[Message], reason: Reason = "rejected", error: str = "") -> None:
        """Give them up: as dead letters where the queue says so, each settled in one commit with its letter."""
        for message in messages:
            lane: QueueLane = message.lane
            if lane.unsettled.get(message.offset) is not message:
                continue
            if reason == "rejected":
                lane.tried(message.offset, _attempt(self._now_ms(), error))
            letters = self._dead.letters(message, reason, error)
            if self._is_to_wait(lane, letters):
                if reason == "rejected":
                    self._count(message)
                del lane.unsettled[message.offset]
                self.rest(message, self._now_ms() + UNROUTED_PAUSE_MS)
                continue
            del lane.unsettled[message.offset]
            lane.count -= 1
            lane.cursor.done.append(message.offset)
            lane.forget_attempts((message.offset,))
            if letters:
                self._outbox.together(letters, message)
            else:
                self._changed(lane)

    def bury_refused(self, queue: Queue, headers: bytes, value: bytes | memoryview, key: bytes | None) -> None:
        """Publish a message that a full queue did not take as a dead letter of that queue."""
        message = Message(queue.lane_of(0), -1, self._now_ms(), key, headers, value, 0)
        for put in self._dead.letters(message, "maxlen"):
            self._outbox.put(put.queues, put.headers, put.value, key=put.key, priority=put.priority)

    def _is_to_wait(self, lane: QueueLane, letters: Sequence[Put]) -> bool:
        """Whether dead letters cannot be written now: the disk is full, or they must not be lost and nobody takes them."""
        if letters and self._outbox.is_full:
            return True
        target = lane.queue.rules.dead_letter
        if target is None or target.strategy != "at-least-once":
            return False
        return not letters or any(queue.refuses() for put in letters for queue in put.queues)

    def returned(self, messages: Sequence[Message]) -> None:
        """What they were to be settled with could not be written: they are there again."""
        for message in messages:
            lane: QueueLane = message.lane
            if not lane.cursor.is_settled(message.offset):
                continue  # The queue was rewound meanwhile.
            lane.cursor.unsettle([message.offset])
            lane.count += 1
            self._count(message)
            self.rest(message, self._now_ms() + UNROUTED_PAUSE_MS)

    # Resting

    def rest(self, message: Message, due_ms: int) -> None:
        """Give it out again, not before that time."""
        message.lane.rest(message, due_ms)
        self._timers.at(due_ms, (message.lane, message.offset), functools.partial(self._end_rest, message))
        self._changed(message.lane)

    def _end_rest(self, message: Message) -> None:
        lane: QueueLane = message.lane
        if lane.end_rest(message) and not lane.is_gone:
            self._changed(lane)
            lane.queue.wake()

    def _changed(self, lane: QueueLane) -> None:
        if not lane.is_gone:
            self._outbox.dirty(lane)


def _attempt(now_ms: int, error: str) -> Attempt:
    return Attempt(now_ms, error.encode("utf-8", "replace")[:ERROR_BYTES_MAX].decode("utf-8", "ignore"))
