"""What becomes of messages that were given out: settled, given back, or given up. In memory at once, stored with the outbox."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from mainstem.broker.dead_letters.routed_letters import RoutedLetters
from mainstem.coordination.commit_addition import CommitAddition
from mainstem.coordination.dead_letters.deaths import Reason, attempt_at
from mainstem.coordination.dead_letters.targets import DeadLetterTarget
from mainstem.coordination.subscriptions.cursor import Counts
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.publication import Put
    from mainstem.broker.queues.publishing.outbox import Outbox
    from mainstem.broker.queues.queue import Queue, QueueLane
    from mainstem.broker.queues.timers import Timers

UNROUTED_PAUSE_MS = 5_000
"""How long a dead letter that must not be lost waits when it finds no queue."""


def _nothing(_lane: QueueLane, _offsets: list[int]) -> None:
    pass


def _no_letter(_message: Message, _reason: Reason, _error: str) -> CommitAddition | None:
    return None


TopicLetter: TypeAlias = Callable[[Message, Reason, str], CommitAddition | None]


class Settling:
    """Of all queues."""

    def __init__(self, now_ms: Callable[[], int], outbox: Outbox, timers: Timers, dead: RoutedLetters) -> None:
        self._now_ms = now_ms
        self._outbox = outbox
        self._timers = timers
        self._dead = dead
        self.fetch: Callable[[QueueLane, list[int]], None] = _nothing
        """Reads messages that have rested and are not in memory; the reader sets it."""
        self.topic_letter: TopicLetter = _no_letter
        """Writes the dead letter of a message to a topic; subscriptions of topics set it."""

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

    def settle_offsets(self, lane: QueueLane, offsets: Iterable[int]) -> None:
        """Settle these, whether somebody holds them or they wait. What is settled already is passed over."""
        cursor = lane.cursor
        offsets = [one for one in set(offsets) if one < lane.end and not cursor.is_settled(one)]
        held = [lane.unsettled[one] for one in offsets if one in lane.unsettled]
        self.settle(held)
        waiting = sorted(one for one in offsets if not (cursor.is_settled(one) or one in cursor.acquired))
        if waiting:
            self._drop_waiting(lane, set(waiting))
            cursor.settle(waiting)
            lane.count -= len(waiting)
            self._changed(lane)

    def settle_below(self, lane: QueueLane, end: int) -> None:
        """Settle all below an offset, whether somebody holds it or it waits."""
        cursor, end = lane.cursor, min(end, lane.end)
        self.settle([message for offset, message in lane.unsettled.items() if offset < end])
        if cursor.floor >= end:
            return
        self._drop_waiting(lane, {message.offset for message in lane.ready if message.offset < end})
        for offset in [offset for offset in cursor.rests if offset < end]:
            cursor.end_rest(offset)
            lane.resting.pop(offset, None)
        cursor.settle_stretch(cursor.floor, end - 1)
        lane.count = lane.end - cursor.floor - cursor.settled_count
        self._changed(lane)

    def _drop_waiting(self, lane: QueueLane, offsets: set[int]) -> None:
        for offset in offsets:
            lane.cursor.end_rest(offset)
            lane.resting.pop(offset, None)
        kept = [message for message in lane.ready if message.offset not in offsets]
        if len(kept) < len(lane.ready):
            lane.ready.clear()
            lane.ready.extend(kept)
            lane.ready_bytes = sum([len(message.value) for message in kept])

    def requeue(self, messages: Iterable[Message], *, failed: bool = True, delay_ms: int = 0, error: str = "") -> None:
        """Back to their places, to be given out again: at once, or after a delay; given up if that was once too often."""
        now_ms = self._now_ms()
        attempt = attempt_at(now_ms, error) if failed else None
        back: dict[QueueLane, list[Message]] = {}
        resting: set[QueueLane] = set()
        spent: list[Message] = []
        for message in messages:
            lane: QueueLane = message.lane
            offset = message.offset
            if lane.unsettled.get(offset) is not message:
                continue
            wait_ms = lane.cursor.give_back(
                offset,
                lane.queue.policy,
                now_ms,
                random.random,
                failed=failed,
                delay_ms=delay_ms,
                attempt=attempt,
                before=Counts(message.deliveries, message.failures),
            )
            message.deliveries += 1
            message.failures += failed
            if wait_ms is None:
                spent.append(message)
            elif wait_ms:
                lane.resting[offset] = message
                resting.add(lane)
            else:
                back.setdefault(lane, []).append(message)
        for lane in resting:
            self.watch(lane)
            self._changed(lane)
        for lane, returned in back.items():
            lane.take_back(returned)
            lane.queue.redelivered += len(returned)
            self._changed(lane)
            lane.queue.returned()
            lane.queue.wake()
        for message in spent:
            message.deliveries -= 1  # the letter counts the delivery that has ended
            self._give_up(message, "delivery_limit", error)

    def reject(self, messages: Iterable[Message], reason: Reason = "rejected", error: str = "") -> None:
        """Give them up: as dead letters where the queue says so, each settled in one commit with its letter."""
        attempt = attempt_at(self._now_ms(), error) if reason == "rejected" else None
        for message in messages:
            lane: QueueLane = message.lane
            if lane.unsettled.get(message.offset) is not message:
                continue
            lane.cursor.let_go(message.offset)
            if attempt is not None:
                lane.cursor.note_attempt(message.offset, attempt)
            self._give_up(message, reason, error)

    def _give_up(self, message: Message, reason: Reason, error: str) -> None:
        """Nobody holds it, and nobody is given it again, unless its letter cannot be written now."""
        lane: QueueLane = message.lane
        letters = self._dead.letters(message, reason, error)
        letter = self.topic_letter(message, reason, error)
        if self._is_to_wait(lane, letters) or (letter is not None and self._outbox.is_full):
            if reason in ("rejected", "delivery_limit"):
                self._count(message)
            self.rest(message, self._now_ms() + UNROUTED_PAUSE_MS)
            return
        if reason == "expired":
            lane.queue.expired += 1
        elif reason == "maxlen":
            lane.queue.dropped += 1
        lane.count -= 1
        lane.cursor.done.append(message.offset)
        lane.cursor.forget_attempts((message.offset,))
        if letters or letter is not None:
            self._outbox.together(letters, message, letter)
        else:
            self._changed(lane)

    def _count(self, message: Message) -> None:
        """It was given out, and comes back."""
        message.deliveries += 1
        message.lane.cursor.count(message.offset, Counts(message.deliveries, message.failures))

    def bury_refused(self, queue: Queue, headers: bytes, value: bytes | memoryview, key: bytes | None) -> None:
        """Publish a message that a full queue did not take as a dead letter of that queue."""
        message = Message(queue.lane_of(0), -1, self._now_ms(), key, headers, value, 0)
        for put in self._dead.letters(message, "maxlen"):
            self._outbox.put(put.queues, put.headers, put.value, key=put.key, priority=put.priority)

    def _is_to_wait(self, lane: QueueLane, letters: Sequence[Put]) -> bool:
        """Whether dead letters cannot be written now: the disk is full, or they must not be lost and nobody takes them."""
        if letters and self._outbox.is_full:
            return True
        target = lane.queue.policy.dead_letter
        if not isinstance(target, DeadLetterTarget) or target.strategy != "at-least-once":
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

    # Time

    def rest(self, message: Message, due_ms: int) -> None:
        """Give it out again, not before that time."""
        message.lane.rest(message, due_ms)
        self.watch(message.lane)
        self._changed(message.lane)

    def rest_until(self, lane: QueueLane, due: Iterable[tuple[int, int]]) -> None:
        """Messages that are read for the first time are not given out before their times."""
        now_ms, is_changed = self._now_ms(), False
        for offset, due_ms in due:
            if due_ms > now_ms and offset not in lane.cursor.rests and offset not in lane.cursor.counts:
                lane.cursor.rest(offset, due_ms)
                is_changed = True
        if is_changed:
            self.watch(lane)
            self._changed(lane)

    def lease(self, lane: QueueLane, messages: Iterable[Message], lease_ms: int) -> None:
        """What was given out is to be settled within this time; then another consumer gets it."""
        deadline_ms = self._now_ms() + lease_ms
        for message in messages:
            if lane.unsettled.get(message.offset) is message:
                lane.cursor.expect(message.offset, message, deadline_ms)
        self.watch(lane)

    def watch(self, lane: QueueLane) -> None:
        """Look at a lane when its next lease or rest ends."""
        due_ms = lane.cursor.next_due_ms()
        if due_ms is not None:
            self._timers.at(due_ms, (lane, "due"), functools.partial(self._on_due, lane))

    def _on_due(self, lane: QueueLane) -> None:
        if lane.is_gone:
            return
        due = lane.cursor.pass_time(self._now_ms())
        if due.rested:
            missing = lane.end_rests(due.rested)
            if missing:
                self.fetch(lane, missing)
            self._changed(lane)
            lane.queue.wake()
        if due.late:
            late: list[Message] = []
            for offset, message in due.late:
                # From now on another object stands for it: what its late worker says of the old one has no effect.
                late.append(message.again())
                lane.unsettled[offset] = late[-1]
            self.requeue(late, failed=True, error="its lease ended")
        self.watch(lane)

    def _changed(self, lane: QueueLane) -> None:
        if not lane.is_gone:
            self._outbox.dirty(lane)
