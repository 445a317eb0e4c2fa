"""Which blocks the logs of one run share: batches that several logs have, as after a fan-out, are stored once.

A plan is made in two passes over all logs of a run: the first counts how many logs need a unit, the second how many have the
same block of them. After that each log is written part by part. Two blocks are the same if they consist of the same units of the
inputs; their content is never compared.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from mainstem.storage.local.runs.shared_entries import DEAD, SHARED, LogEntries, add_takers, cut

ENTRY_BYTES = 41
"""Of a block in the index of a run."""


class SharedBlock:
    """A block that several logs point to, and where it lies in the run that was written last."""

    __slots__ = ("batches", "crc", "is_worth_it", "position", "run", "size", "takers", "time")

    def __init__(self) -> None:
        self.takers = 0
        self.is_worth_it: bool | None = None
        """Whether it is stored as one; None until somebody asks."""
        self.run = -1
        """The run that holds it; each run of a series has a copy of its own."""
        self.position = self.size = self.crc = self.batches = 0
        self.time = -1


class Part(NamedTuple):
    """A stretch of a log's entries: copied for this log alone, unless it is a shared block."""

    begin: int
    stop: int
    block: SharedBlock | None


class SharingPlan:
    """The shared blocks of the logs that go into one run, or into one series of runs of the same retention class."""

    def __init__(self, units: int, block_bytes: int, shared_bytes_min: int) -> None:
        self._takers = array("I", bytes(4 * units))
        self._block_bytes = block_bytes
        self._shared_bytes_min = shared_bytes_min
        self._blocks: dict[bytes, SharedBlock] = {}

    def count_units(self, entries: LogEntries, start: int) -> None:
        """First pass: a log, and where it starts."""
        add_takers(entries, start, self._takers)

    def count_blocks(self, entries: LogEntries, start: int) -> None:
        """Second pass."""
        for begin, stop, kind in self._cut(entries, start):
            if kind == SHARED:
                self._block(entries, begin, stop).takers += 1

    def parts(self, entries: LogEntries, start: int) -> Iterator[Part]:
        """The entries of a log that the merge writes, by offset."""
        for begin, stop, kind in self._cut(entries, start):
            if kind == DEAD:
                continue
            block = self._block(entries, begin, stop) if kind == SHARED else None
            if block is None or self._is_worth_it(block, entries, begin, stop):
                yield Part(begin, stop, block)
            else:
                yield from self._single_units(entries, begin, stop, start)

    def _is_worth_it(self, block: SharedBlock, entries: LogEntries, begin: int, stop: int) -> bool:
        """Whether most logs have these units together, or entries for single units would take more bytes than a copy."""
        if block.is_worth_it is None:
            mean = sum(entries.sizes[begin:stop]) / (stop - begin)
            most = max(self._takers[unit] for unit in entries.units[begin:stop])
            is_cheap = mean < self._shared_bytes_min or mean <= block.takers * ENTRY_BYTES
            block.is_worth_it = block.takers > 1 and (2 * block.takers > most or is_cheap)
        return block.is_worth_it

    def _single_units(self, entries: LogEntries, begin: int, stop: int, start: int) -> Iterator[Part]:
        """Units that others have in other blocks: large ones are shared one by one, small ones copied."""
        begin = max(begin, bisect_right(entries.nexts, start))
        for at in range(begin, stop):
            if entries.sizes[at] >= self._shared_bytes_min:
                if begin < at:
                    yield Part(begin, at, None)
                yield Part(at, at + 1, self._block(entries, at, at + 1))
                begin = at + 1
        if begin < stop:
            yield Part(begin, stop, None)

    def _cut(self, entries: LogEntries, start: int) -> Iterator[tuple[int, int, int]]:
        parts = cut(entries, start, self._takers, self._block_bytes, self._shared_bytes_min)
        begin = 0
        for at in range(0, len(parts), 2):
            yield begin, parts[at], parts[at + 1]
            begin = parts[at]

    def _block(self, entries: LogEntries, begin: int, stop: int) -> SharedBlock:
        key = entries.units[begin:stop].tobytes()
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = SharedBlock()
        return block
