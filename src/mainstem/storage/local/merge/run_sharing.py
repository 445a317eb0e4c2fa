"""Which blocks of the inputs of a merge of runs several logs share, so that the outputs have them once too."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import partial
from itertools import accumulate

from mainstem.model.errors import CorruptData
from mainstem.storage.contract import Buffer
from mainstem.storage.local.merge.job import MergeJob
from mainstem.storage.local.merge.run_series import BlockPacker, RunSeries, SharedContent
from mainstem.storage.local.merge.run_source import RunSource
from mainstem.storage.local.runs.block_sharing import SharingPlan
from mainstem.storage.local.runs.run_file import RunIndex
from mainstem.storage.local.runs.shared_entries import LogEntries


class RunSharing:
    """The logs of one retention class. A unit is a stored block, by the number of the first entry that points to it."""

    def __init__(self, sources: list[RunSource], job: MergeJob, logs: list[int]) -> None:
        self._sources = sources
        self._starts = job.starts
        self._first_units = list(accumulate((len(source.index.block_firsts) for source in sources), initial=0))
        self._units = [_units(source.index, first) for source, first in zip(sources, self._first_units, strict=False)]
        self.logs = {
            log
            for source in sources
            if source.index.is_shared
            for log in set(logs).difference(job.key_indexed, job.compact).intersection(source.index.logs)
        }
        """Those that have a part in it; the others are copied. Key tables and compaction need blocks of their own."""
        self._plan = SharingPlan(self._first_units[-1], job.block_bytes, job.limits.shared_bytes_min)
        for count in (self._plan.count_units, self._plan.count_blocks):
            for log in sorted(self.logs):
                count(self._entries(log)[0], self._starts.get(log, 0))

    def write(self, log: int, series: RunSeries, packer: BlockPacker) -> None:
        """The live blocks of a log; `series` has begun it."""
        entries, sources = self._entries(log)
        start = self._starts.get(log, 0)
        for begin, stop, block in self._plan.parts(entries, start):
            if block is None:
                for at in range(begin, stop):
                    number, first_entry, first_block = sources[bisect_right(sources, at, key=lambda part: part[1]) - 1]
                    packer.add(*self._sources[number].piece(first_block + at - first_entry, start, log))
                continue
            packer.flush()
            load = partial(self._load, entries.units[begin:stop], log)
            first, next_ = entries.firsts[begin], entries.nexts[stop - 1]
            series.add_shared(first, next_, block, load, is_foreign=any(entries.foreign[begin:stop]))

    def _entries(self, log: int) -> tuple[LogEntries, list[tuple[int, int, int]]]:
        """All blocks of a log; with the number of each input that has any, its first entry and its first block."""
        parts: list[tuple[int, int, range]] = []
        for number, source in enumerate(self._sources):
            slot = source.index.find(log)
            if slot >= 0:
                parts.append((source.index.firsts[slot], number, source.index.blocks(slot)))
        entries = LogEntries()
        sources: list[tuple[int, int, int]] = []
        for _, number, blocks in sorted(parts, key=lambda part: part[:2]):
            if not blocks:
                continue
            index = self._sources[number].index
            if len(entries.nexts) and index.block_firsts[blocks.start] < entries.nexts[-1]:
                raise CorruptData(self._sources[number].path, 0, "offsets overlap those of another run", (log,))
            sources.append((number, len(entries.units), blocks.start))
            at = slice(blocks.start, blocks.stop)
            entries.firsts.extend(index.block_firsts[at])
            entries.nexts.extend(index.block_nexts[at])
            entries.sizes.extend(index.block_sizes[at])
            entries.units.extend(self._units[number][at])
            foreign = index.block_foreign[at] if index.is_shared else bytes(len(blocks))
            entries.foreign.extend(array("I", list(foreign)))
        return entries, sources

    def _load(self, units: array[int], log: int) -> SharedContent:
        pieces: list[Buffer] = []
        time = -1
        batches = 0
        for unit in units:
            number = bisect_right(self._first_units, unit) - 1
            source, block = self._sources[number], unit - self._first_units[number]
            pieces.append(source.read_block(block, log))
            time = max(time, source.index.block_times[block])
            batches += source.index.block_batches[block]
        return SharedContent(pieces[0] if len(pieces) == 1 else b"".join(pieces), time, batches)


def _units(index: RunIndex, first_unit: int) -> array[int]:
    """Of each block, the number of the first one at the same position."""
    count = len(index.block_positions)
    if not index.is_shared:
        return array("I", range(first_unit, first_unit + count))
    first_at: dict[int, int] = {}
    return array(
        "I", [first_at.setdefault(position, unit) for unit, position in enumerate(index.block_positions, first_unit)]
    )
