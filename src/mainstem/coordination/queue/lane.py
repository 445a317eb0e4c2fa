"""A lane: one log of a queue, with the part of it that is in memory.

    offsets   floor ........... tail ............... end
              |  settled, given  |  only in the log   |
              |  out, or ready   |                    |

Whatever is below `tail` is known: settled, given out (`unsettled`), or in `ready`, which is in the order of offsets. What lies
between `tail` and `end` is read when `ready` runs low. Messages that are published here, while nothing lies between, go
straight into `ready` and are never read. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from mainstem.coordination.cursor import Cursor

if TYPE_CHECKING:
    from mainstem.coordination.queue.message import Message
    from mainstem.coordination.queue.records import BatchUnderway

Q = TypeVar("Q")


class Lane(Generic[Q]):
    """One log, read as a queue or as a part of one."""

    __slots__ = (
        "_ahead",
        "batch",
        "bytes_average",
        "count",
        "cursor",
        "end",
        "floor_moved",
        "given",
        "given_out",
        "is_gone",
        "is_reading",
        "is_reserving",
        "log",
        "number",
        "queue",
        "ready",
        "ready_bytes",
        "reserve_at",
        "reserved",
        "rests",
        "rests_changed",
        "rewound",
        "tail",
        "unsettled",
    )

    def __init__(self, queue: Q, number: int, cursor: Cursor, end: int) -> None:
        self.queue = queue
        self.number = number
        self.log = cursor.log
        self.cursor = cursor
        self.ready: deque[Message] = deque()
        self.ready_bytes = 0
        self.bytes_average = 0
        """Of the messages that were read last: what is not in memory is taken to be like them."""
        self.unsettled: dict[int, Message] = {}
        self.tail = cursor.floor
        self.end = max(end, self.tail)
        """How far the log can be read, as far as we know."""
        self.given = 0
        """Below this offset messages may have been given out before a restart."""
        self.count = self.end - self.tail - cursor.settled_count
        """Messages that are not settled; those that turn out not to be messages are taken off when they are read."""
        self.given_out = 0
        """Behind the highest offset that was given out since the start."""
        self.reserved = self.reserve_at = 1 << 62
        """Below `reserved` messages may be given out; from `reserve_at` on more is to be reserved. No limit here."""
        self.is_reserving = False
        self.is_reading = False
        self.is_gone = False
        """Whether the log was deleted."""
        self.rests: dict[int, tuple[int, Message | None]] = {}
        """Given back, to rest until a time, by offset; the message, once it is in memory."""
        self.rests_changed: set[int] = set()
        self.rewound = 0
        """Until all below this offset is settled again, retention is held off."""
        self.floor_moved = self.tail
        """The floor that retention knows of."""
        self._ahead: deque[tuple[int, list[Message]]] | None = None
        """What was published here while the log below was still being read: each with its first offset, without a gap."""
        self.batch: BatchUnderway | None = None
        """What is being published to it in this turn."""

    @property
    def is_behind(self) -> bool:
        """Whether there is something in the log that is not in memory."""
        return self.tail < self.end

    @property
    def ready_count(self) -> int:
        """Messages waiting, in memory or not."""
        return self.count - len(self.unsettled)

    def extend(self, end: int) -> None:
        """The log has grown."""
        if end > self.end:
            self.count += end - self.end
            self.end = end

    def accept(self, base: int, count: int, messages: list[Message] | None) -> None:
        """What was published has got its offsets and is durable."""
        if base != self.end:
            return  # There is something of others in between: we shall be told how far it can be read.
        end = base + count
        self.count += count
        if messages is not None:
            if base == self.tail:
                self._take_in(base, messages)
            elif self.is_reading:
                if self._ahead is None:
                    self._ahead = deque()
                self._ahead.append((base, messages))
        self.end = end

    def catch_up(self) -> None:
        """The log was read up to the tail: go on with what was published here meanwhile."""
        ahead = self._ahead
        while ahead:
            base, messages = ahead[0]
            if base > self.tail:
                return
            ahead.popleft()
            if base == self.tail:
                self._take_in(base, messages)
            elif base + len(messages) > self.tail:
                break  # read in part
        self._ahead = None

    def _take_in(self, base: int, messages: list[Message]) -> None:
        offset, size = base, 0
        for message in messages:
            message.offset = offset
            offset += 1
            size += len(message.value)
        self.ready.extend(messages)
        self.ready_bytes += size
        self.bytes_average = size // len(messages)
        self.tail = offset

    def has_room(self, messages: int, window: int) -> bool:
        """Whether what is published now may go straight into memory, with so many before it in the same batch."""
        waiting = len(self.ready) + messages
        return waiting < window and (
            self.tail == self.end or (self.is_reading and self.end - self.tail + waiting < window)
        )

    def take_back(self, messages: Iterable[Message]) -> None:
        """Put messages that were given out to their places again."""
        ready = self.ready
        for message in sorted(messages, key=_offset, reverse=True):
            self.ready_bytes += len(message.value)
            if not ready or message.offset < ready[0].offset:
                ready.appendleft(message)
                continue
            place = 0
            for other in ready:
                if other.offset > message.offset:
                    break
                place += 1
            ready.insert(place, message)

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

    def drop_window(self, tail: int) -> None:
        """Forget what is in memory and ready; from this offset on it is to be read anew."""
        self.ready.clear()
        self.ready_bytes = 0
        self._ahead = None
        self.tail = tail


def _offset(message: Message) -> int:
    return message.offset
