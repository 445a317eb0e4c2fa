"""What becomes of messages of a queue that an acquisition has held: decided, and to be done with one commit of the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainstem.broker.acquisitions.holds import SettledStretches, Tried
from mainstem.broker.queues import Message, Put, Queues
from mainstem.broker.queues.settling.settling import UNROUTED_PAUSE_MS
from mainstem.coordination.acquisitions.acquisition import Stretch
from mainstem.coordination.dead_letters.deaths import Reason
from mainstem.coordination.dead_letters.targets import DeadLetterTarget
from mainstem.storage.contract import Append, Mutation

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import QueueLane


class LanePart:
    """What becomes of what was held of one lane."""

    __slots__ = ("applied", "dead", "dying", "lane", "rests", "returned", "settled", "tried")

    def __init__(self, lane: QueueLane) -> None:
        self.lane = lane
        self.settled: list[Stretch] = []
        self.dying: list[tuple[Message, Reason, str]] = []
        self.returned: list[Stretch] = []
        self.rests: dict[int, int] = {}
        self.tried: list[Tried] = []
        self.dead: list[Stretch] = []
        self.applied: SettledStretches | None = None

    def apply(self) -> None:
        """Settle, count, set to rest; what comes back stays held until that is durable."""
        lane = self.lane
        self.applied = SettledStretches(lane.cursor, [*self.settled, *self.dead])
        self.applied.apply()
        for first, last, _ in self.applied.stretches:
            lane.cursor.unacquire(first, last)
            lane.count -= last - first + 1
        for tried in self.tried:
            tried.note(lane.cursor)
        for offset, due_ms in self.rests.items():
            lane.cursor.rest(offset, due_ms)

    def revert(self) -> None:
        """All is held again."""
        lane = self.lane
        assert self.applied is not None
        self.applied.revert()
        for first, last, _ in self.applied.stretches:
            lane.cursor.acquire(first, last)
            lane.count += last - first + 1
        for tried in self.tried:
            tried.revert(lane.cursor)
        for offset in self.rests:
            lane.cursor.end_rest(offset)

    def done(self) -> None:
        """What is tried again is read again."""
        queue = self.lane.queue
        queue.acknowledged += sum(last - first + 1 for first, last, _ in [*self.settled, *self.dead])
        queue.redelivered += len(self.tried)
        back = [*(held.first for held in self.returned), *self.rests]
        for first, last, _ in self.returned:
            self.lane.cursor.unacquire(first, last)
        for offset in self.rests:
            self.lane.cursor.unacquire(offset, offset)
        if back and not self.lane.is_gone:
            read_again(self.lane, min(back))


class QueuePart:
    """What becomes of one acquisition."""

    def __init__(self, queues: Queues, now_ms: int) -> None:
        self._queues = queues
        self._now_ms = now_ms
        self._lanes: dict[int, LanePart] = {}

    def of(self, lane: QueueLane) -> LanePart:
        """What is of one lane."""
        return self._lanes.setdefault(lane.log, LanePart(lane))

    def letters(self) -> Sequence[Put]:
        """Dead letters. One that must not be lost and finds no queue keeps its message, for a while."""
        puts: list[Put] = []
        for part in self._lanes.values():
            part.dead = []
            target = part.lane.queue.policy.dead_letter
            for message, reason, error in part.dying:
                letters = self._queues.dead_letters.letters(message, reason, error)
                stretch = Stretch(message.offset, message.offset, message.deliveries + 1)
                if not letters and isinstance(target, DeadLetterTarget) and target.strategy == "at-least-once":
                    part.rests[message.offset] = self._now_ms + UNROUTED_PAUSE_MS
                else:
                    part.dead.append(stretch)
                    puts += letters
        return puts

    def apply(self) -> None:
        """Lane by lane; the outbox stores what has changed."""
        for part in self._there():
            part.apply()
            self._queues.outbox.dirty(part.lane)

    def appends(self) -> Sequence[Append]:
        """They go with the outbox."""
        return ()

    def state(self) -> Sequence[Mutation]:
        """It goes with the outbox."""
        return ()

    def revert(self) -> None:
        """Lane by lane."""
        for part in self._there():
            if part.applied is not None:
                part.revert()

    def done(self) -> None:
        """Lane by lane."""
        for part in self._there():
            part.done()
            self._queues.settling.watch(part.lane)

    def _there(self) -> list[LanePart]:
        return [part for part in self._lanes.values() if not part.lane.is_gone]


def read_again(lane: QueueLane, first: int) -> None:
    """Messages below the tail are free again: the window begins anew with them, or with what is ready before them."""
    ready = lane.ready[0].offset if lane.ready else lane.tail
    lane.drop_window(min(lane.tail, ready, first))
    lane.queue.wake()
