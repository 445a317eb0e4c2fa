"""A lane: one log of a queue, with the core of every subscription (`cursor`) and the messages that are in memory.

A plain queue has one, a queue with priorities one for each level, a borrowed one as many as the topic has partitions. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from mainstem.coordination.queues.window import Window
from mainstem.coordination.subscriptions.subscribed_log import SubscribedLog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mainstem.wire.messages.batch_underway import BatchUnderway
    from mainstem.wire.messages.message import Message

Q = TypeVar("Q")


class Lane(Window, Generic[Q]):
    """One log, read as a queue or as a part of one."""

    __slots__ = (
        "batch",
        "cursor",
        "floor_moved",
        "given",
        "is_gone",
        "is_reserving",
        "log",
        "number",
        "queue",
        "reserve_at",
        "reserved",
        "resting",
        "rewound",
        "start",
    )

    def __init__(self, queue: Q, number: int, cursor: SubscribedLog, end: int) -> None:
        super().__init__(cursor.floor, end)
        self.queue = queue
        self.number = number
        self.log = cursor.log
        self.cursor = cursor
        self.count -= cursor.settled_count
        self.unsettled = cursor.held  # One dict: what was given out is what the core knows to be held.
        self.given = 0
        """Below this offset messages may have been given out before a restart."""
        self.reserved = self.reserve_at = 1 << 62
        """Below `reserved` messages may be given out; from `reserve_at` on more is to be reserved. No limit here."""
        self.is_reserving = False
        self.is_gone = False
        """Whether the log was deleted."""
        self.resting: dict[int, Message] = {}
        """Messages at rest that are in memory, by offset."""
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
        return self.count - len(self.unsettled) - self.cursor.acquired_count

    def settle(self, messages: list[Message]) -> int:
        """They are done with, as far as they are given out here; answers how many were."""
        cursor = self.cursor
        settled = self.let_go(messages, cursor.done)
        if cursor.attempts or cursor.has_leases:
            offsets = [message.offset for message in messages if message.lane is self]
            cursor.forget_attempts(offsets)
            cursor.forget_leases(offsets)
        return settled

    def rest(self, message: Message, due_ms: int) -> None:
        """A message that was given back is not to be given out before a time."""
        self.cursor.rest(message.offset, due_ms)
        self.resting[message.offset] = message

    def end_rests(self, offsets: Iterable[int]) -> list[int]:
        """They have rested: those that are in memory are ready. Answers those that are to be read again."""
        rested: list[Message] = []
        missing: list[int] = []
        for offset in offsets:
            message = self.resting.pop(offset, None)
            if message is not None:
                rested.append(message)
            elif offset < self.tail and offset not in self.cursor.acquired:
                missing.append(offset)
        self.take_back(rested)
        return missing
