"""All files that hold batches: of the write-ahead log, by generation, and runs; and which of them hold a given log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mainstem.storage.local.stored_file import RunFile, StoredFile, WalFile
from mainstem.storage.local.tail import POSITION_BITS, POSITION_MASK
from mainstem.storage.log_state import LogState

VIEWS_MAX = 10_000
"""Logs whose runs are remembered; more only cost looking them up again."""


class Stretch(NamedTuple):
    """Contiguous bytes of one log: a block of a run, or one batch of the write-ahead log."""

    first: int
    next: int
    """-1 where only the batch itself says (the last one before the end)."""
    time: int
    file: StoredFile
    position: int
    size: int
    crc: int
    """Of the whole stretch; -1 for a batch of the write-ahead log, which is checked by its own."""
    base: int = -1
    """For a reference: the base offset that the reader must see."""


class RunView(NamedTuple):
    """One run's part of a log."""

    first: int
    next: int
    run: RunFile
    slot: int


class FileSet:
    """What is on disk and live. Engine's thread only."""

    def __init__(self) -> None:
        self.wal: dict[int, WalFile] = {}
        self.runs: dict[int, RunFile] = {}
        self.version = 0
        """Grows with every change of the runs."""
        self._views: dict[int, list[RunView]] = {}

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

    def view(self, log: int) -> list[RunView]:
        """The runs that hold a log, in order of its offsets."""
        view = self._views.get(log)
        if view is None:
            view = []
            for run in self.runs.values():
                slot = run.index.find(log)
                if slot >= 0:
                    view.append(RunView(run.index.firsts[slot], run.index.nexts[slot], run, slot))
            view.sort(key=lambda part: part.first)
            if len(self._views) >= VIEWS_MAX:
                self._views.clear()
            self._views[log] = view
        return view

    def stretches(self, state: LogState, offset: int) -> Iterator[Stretch]:
        """Everything of a log from the stretch that contains the offset, in order: runs first, then the tail."""
        tail = state.tail
        tail_first = tail.bases[0] if tail is not None and tail.bases else None
        if tail_first is None or offset < tail_first:
            for part in self.view(state.log):
                if part.next > offset and (tail_first is None or part.first < tail_first):
                    yield from _blocks(part, offset, tail_first)
        if tail is not None and tail_first is not None:
            yield from self._tail_stretches(state, max(0, tail.index_of(offset)))

    def _tail_stretches(self, state: LogState, index: int) -> Iterator[Stretch]:
        tail = state.tail
        assert tail is not None
        bases, refs = tail.bases, tail.refs
        count = len(bases)
        while index < count:
            base = bases[index]
            place = tail.places[index]
            yield Stretch(
                base,
                bases[index + 1] if index + 1 < count else state.end,
                tail.times[index],
                self.wal[place >> POSITION_BITS],
                place & POSITION_MASK,
                tail.sizes[index],
                -1,
                base if refs is not None and base in refs else -1,
            )
            index += 1


def _blocks(part: RunView, offset: int, before: int | None) -> Iterator[Stretch]:
    index = part.run.index
    for block in range(index.block_for(part.slot, offset), index.blocks(part.slot).stop):
        first = index.block_firsts[block]
        if before is not None and first >= before:
            return
        yield Stretch(
            first,
            index.block_nexts[block],
            index.block_times[block],
            part.run,
            index.block_positions[block],
            index.block_sizes[block],
            index.block_crcs[block],
        )
