"""A lane: one log of a queue, with its cursor, the part of it that is in memory, and what rests.

A plain queue has one, a queue with priorities one for each level, a borrowed one as many as the topic has partitions. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from mainstem.coordination.offset_pages import PagedOffsets
from mainstem.coordination.queues.deaths import ATTEMPTS_MAX, Attempt
from mainstem.coordination.queues.window import Window
from mainstem.coordination.subscriptions.cursor import Cursor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mainstem.wire.messages.batch_underway import BatchUnderway
    from mainstem.wire.messages.message import Message

Q = TypeVar("Q")


class Lane(Window, Generic[Q]):
    """One log, read as a queue or as a part of one."""

    __slots__ = (
        "attempts",
        "attempts_changed",
        "batch",
        "cursor",
        "floor_moved",
        "given",
        "held",
        "held_count",
        "is_gone",
        "is_reserving",
        "log",
        "number",
        "queue",
        "reserve_at",
        "reserved",
        "rests",
        "rests_changed",
        "rewound",
        "start",
    )

    def __init__(self, queue: Q, number: int, cursor: Cursor, end: int) -> None:
        super().__init__(cursor.floor, end)
        self.queue = queue
        self.number = number
        self.log = cursor.log
        self.cursor = cursor
        self.count -= cursor.settled_count
        self.held = PagedOffsets()
        """Given out to acquisitions, which know them by their offsets alone."""
        self.held_count = 0
        self.given = 0
        """Below this offset messages may have been given out before a restart."""
        self.reserved = self.reserve_at = 1 << 62
        """Below `reserved` messages may be given out; from `reserve_at` on more is to be reserved. No limit here."""
        self.is_reserving = False
        self.is_gone = False
        """Whether the log was deleted."""
        self.rests: dict[int, tuple[int, Message | None]] = {}
        """Given back, to rest until a time, by offset; the message, once it is in memory."""
        self.rests_changed: set[int] = set()
        self.attempts: dict[int, list[Attempt]] = {}
        """Of messages that were given out in vain, by offset."""
        self.attempts_changed: set[int] = set()
        self.rewound = 0
        """Until all below this offset is settled again, retention is held off."""
        self.start = self.tail
        """Of a stream: where its log began, when that was last asked."""
        self.floor_moved = self.tail
        """The floor that retention knows of."""
        self.batch: BatchUnderway | None = None
        """What is being published to it in this turn."""

    @property
    def ready_count(self) -> int:
        """Messages waiting, in memory or not."""
        return self.count - len(self.unsettled) - self.held_count

    def hold(self, first: int, last: int) -> None:
        """An acquisition has these, of which nobody has any."""
        self.held.add(first, last)
        self.held_count += last - first + 1

    def unhold(self, first: int, last: int) -> None:
        """The acquisition has them no more."""
        self.held.discard(first, last)
        self.held_count -= last - first + 1

    def settle(self, messages: list[Message]) -> int:
        """They are done with, as far as they are given out here; answers how many were."""
        settled = self.let_go(messages, self.cursor.done)
        if self.attempts:
            self.forget_attempts([message.offset for message in messages if message.lane is self])
        return settled

    def tried(self, offset: int, attempt: Attempt) -> None:
        """It was given out in vain."""
        self.attempts[offset] = [*self.attempts.get(offset, ()), attempt][-ATTEMPTS_MAX:]
        self.attempts_changed.add(offset)

    def forget_attempts(self, offsets: Iterable[int]) -> None:
        """They are done with."""
        for offset in offsets:
            if self.attempts.pop(offset, None) is not None:
                self.attempts_changed.add(offset)

    def rest(self, message: Message, due_ms: int) -> None:
        """A message that was given back is not to be given out before a time."""
        self.rests[message.offset] = (due_ms, message)
        self.rests_changed.add(message.offset)

    def end_rest(self, message: Message) -> bool:
        """It has rested; answers whether it did."""
        if self.rests.get(message.offset, (0, None))[1] is not message:
            return False
        del self.rests[message.offset]
        self.rests_changed.add(message.offset)
        self.take_back([message])
        return True
