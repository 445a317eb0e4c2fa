"""All files that hold batches: of the write-ahead log, by generation, and runs; and which of them hold a given log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from mainstem.storage.local.read.tail import POSITION_BITS, POSITION_MASK
from mainstem.storage.local.runs.run_blocks import neighbours_end
from mainstem.storage.local.runs.stored_file import RunFile, StoredFile, WalFile
from mainstem.storage.sequencer.log_state import LogState


class Stretch(NamedTuple):
    """Contiguous bytes of one log: blocks of a run, or one batch of the write-ahead log."""

    first: int
    next: int
    """-1 where only the batch itself says (the last one before the end)."""
    time: int
    file: StoredFile
    position: int
    size: int
    blocks: range | None
    """Which of the run's; None for a batch of the write-ahead log, which is checked by its own checksum."""
    base: int = -1
    """For a reference: the base offset that the reader must see."""


class RunView(msgspec.Struct, frozen=True, gc=False):
    """One run's part of a log. Not a matter for the garbage collector: there may be many, and there are no cycles."""

    first: int
    next: int
    run: RunFile
    slot: int


class FileSet:
    """What is on disk and live. Engine's thread only."""

    def __init__(self, views_max: int) -> None:
        self._views_max = views_max
        self.wal: dict[int, WalFile] = {}
        self.runs: dict[int, RunFile] = {}
        self.version = 0
        """Grows with every change of the runs."""
        self.deaths = 1
        """Grows whenever something in a run may have died."""
        self.deleted_logs: set[int] = set()
        """Logs deleted since the start: what the write-ahead log still holds of them is dead."""
        self._views: dict[int, tuple[RunView, ...]] = {}

    def add_run(self, run: RunFile) -> None:
        """A run has become live."""
        self.runs[run.index.id] = run
        self._views.clear()
        self.version += 1

    def remove_run(self, run_id: int) -> RunFile:
        """A run is no longer live."""
        self._views.clear()
        self.version += 1
        return self.runs.pop(run_id)

    def view(self, log: int) -> tuple[RunView, ...]:
        """The runs that hold a log, in order of its offsets."""
        view = self._views.get(log)
        if view is None:
            found = []
            for run in self.runs.values():
                slot = run.index.find(log)
                if slot >= 0:
                    found.append(RunView(run.index.firsts[slot], run.index.nexts[slot], run, slot))
            found.sort(key=lambda part: part.first)
            view = tuple(found)
            if len(self._views) >= self._views_max:
                self._views.clear()
            self._views[log] = view
        return view

    def stretches(self, state: LogState, offset: int, join_bytes: int = 0) -> Iterator[Stretch]:
        """Everything of a log from the stretch that contains the offset, in order: runs first, then the tail.

        Blocks that lie side by side are one stretch where that has no more than `join_bytes`.
        """
        tail = state.tail
        tail_first = tail.first if tail is not None and len(tail) else None
        if tail_first is None or offset < tail_first:
            for part in self.view(state.log):
                if part.next > offset and (tail_first is None or part.first < tail_first):
                    yield from _blocks(part, offset, tail_first, join_bytes)
        if tail is not None and tail_first is not None:
            yield from self._tail_stretches(state, max(0, tail.index_of(offset)))

    def bytes_from(self, state: LogState, offset: int) -> int:
        """The size of all stretches of a log that reach beyond an offset, without looking at each."""
        tail = state.tail
        tail_first = tail.first if tail is not None and len(tail) else None
        total = 0
        for part in self.view(state.log):
            if part.next > offset and (tail_first is None or part.first < tail_first):
                first, stop = _block_range(part, offset, tail_first)
                total += sum(part.run.index.block_sizes[first:stop])
        if tail is not None and tail_first is not None and offset < state.end:
            total += tail.bytes_from(max(0, tail.index_of(offset)))
        return total

    def measure(self, state: LogState) -> None:
        """Count the bytes of a log anew."""
        state.bytes = self.bytes_from(state, state.visible_start)

    def _tail_stretches(self, state: LogState, index: int) -> Iterator[Stretch]:
        tail = state.tail
        assert tail is not None
        refs = tail.refs
        count = len(tail)
        while index < count:
            base, place, size, time = tail.row(index)
            index += 1
            yield Stretch(
                base,
                tail.row(index)[0] if index < count else state.end,
                time,
                self.wal[place >> POSITION_BITS],
                place & POSITION_MASK,
                size,
                None,
                base if refs is not None and base in refs else -1,
            )


def _block_range(part: RunView, offset: int, before: int | None) -> tuple[int, int]:
    """The blocks that reach beyond an offset and begin before another one."""
    index = part.run.index
    block, stop = index.block_for(part.slot, offset), index.blocks(part.slot).stop
    return block, stop if before is None else bisect_left(index.block_firsts, before, block, stop)


def _blocks(part: RunView, offset: int, before: int | None, join_bytes: int) -> Iterator[Stretch]:
    run, index = part.run, part.run.index
    block, stop = _block_range(part, offset, before)
    positions, sizes = index.block_positions, index.block_sizes
    while block < stop:
        end = block + 1
        time = index.block_times[block]
        if join_bytes:
            end = neighbours_end(positions, sizes, block, stop, join_bytes)
            time = max(index.block_times[block:end])
        position = positions[block]
        size = positions[end - 1] + sizes[end - 1] - position
        yield Stretch(
            index.block_firsts[block], index.block_nexts[end - 1], time, run, position, size, range(block, end)
        )
        block = end
