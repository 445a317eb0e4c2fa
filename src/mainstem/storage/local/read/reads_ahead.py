"""Reads that are begun before anybody asks for them: what readers of history will want next."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias

from mainstem.storage.answer import Answer
from mainstem.storage.contract import Buffer

READS_AHEAD = 2
"""For one reader: while what it has asked for is handed over, both processors of a small machine have the next to do."""
READS_AHEAD_MAX = 8
"""For all readers, the latest ones; each read may hold `read_bytes_max`."""

Content: TypeAlias = tuple[list[Buffer], int]
"""Batches, and the offset after them."""


class Reading(NamedTuple):
    """A read under way."""

    offset: int
    limit: int
    next_offset: int | None
    """Where it will end, where that is known before: a single stretch above the limit is cut."""
    content: Answer[Content]


class ReadsAhead:
    """By log, in the order in which its reader will ask for them."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[Reading]] = {}
        """The log that was read last is the last one."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, log: int, offset: int, limit: int) -> Reading | None:
        """What was begun for this read. What was begun for another one of the log is forgotten."""
        line = self._lines.pop(log, None)
        if line is None:
            return None
        first = line.popleft()
        if (first.offset, first.limit) != (offset, limit):
            self._count -= 1 + len(line)
            return None
        self._count -= 1
        if line:
            self._lines[log] = line
        return first

    def last(self, log: int) -> Reading | None:
        """The one behind which the next is begun, if there is one."""
        line = self._lines.get(log)
        return line[-1] if line else None

    def has_room(self, log: int, count: int) -> bool:
        """Whether to start another read-ahead. A log's first always fits; further ones only if nothing is evicted."""
        line = self._lines.get(log)
        return line is None or (len(line) < count and self._count < READS_AHEAD_MAX)

    def count(self, log: int) -> int:
        """How many there are for this log."""
        line = self._lines.get(log)
        return len(line) if line else 0

    def add(self, log: int, reading: Reading) -> None:
        """One more, behind those of its log. If there are too many, a second one goes, or that of the log read longest ago."""
        self._lines.setdefault(log, deque()).append(reading)
        self._count += 1
        if self._count > READS_AHEAD_MAX:
            longer = next((line for line in self._lines.values() if len(line) > 1), None)
            dropped = [longer.pop()] if longer is not None else self._lines.pop(next(iter(self._lines)))
            self._count -= len(dropped)
