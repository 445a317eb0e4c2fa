"""Consecutive files of the write-ahead log, as the logs of one retention class see them: sorted by log and written into runs."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from functools import partial
from itertools import accumulate

from mainstem.model.errors import CorruptData
from mainstem.storage.contract import Buffer
from mainstem.storage.local.merge.batch_packer import BatchPacker, OffsetsOverlap
from mainstem.storage.local.merge.job import MergeJob
from mainstem.storage.local.merge.run_series import RunSeries, SharedContent
from mainstem.storage.local.merge.sealed_file import SealedFile
from mainstem.storage.local.runs.block_sharing import SharingPlan
from mainstem.storage.local.runs.shared_entries import LogEntries


class WalSegment:
    """The batches of these logs. A unit is a batch, counted over all files."""

    def __init__(self, files: list[SealedFile], job: MergeJob, retention_class: int, logs: list[int]) -> None:
        self._files = files
        self._starts = job.starts
        self._class = retention_class
        self._logs = logs
        self._block_bytes = job.block_bytes
        self._shared_bytes_min = job.limits.shared_bytes_min
        self._first_units = list(accumulate((len(file.bases) for file in files), initial=0))
        # The offsets in a key table are those in the blocks, so that a log which has one cannot share any.
        sharing = set().union(*(file.sharing_logs() for file in files)).intersection(logs).difference(job.key_indexed)
        self._plan = self._find_shared(sorted(sharing)) if len(sharing) > 1 else None
        self._sharing = sharing if self._plan is not None else set()

    def write(self, series: RunSeries) -> None:
        """All of it. Raises CorruptData, and OSError."""
        packer = BatchPacker(series, self._block_bytes)
        referring = {log for file in self._files for log in file.references}
        for log in self._logs:
            packer.begin_log()
            if log in referring or log in self._sharing:
                self._write_entries(log, series, packer)
            else:
                self._write_own(log, series, packer)

    def _find_shared(self, logs: list[int]) -> SharingPlan:
        plan = SharingPlan(self._first_units[-1], self._block_bytes, self._shared_bytes_min)
        for count in (plan.count_units, plan.count_blocks):
            for log in logs:
                count(self._entries(log), self._starts.get(log, 0))
        return plan

    def _entries(self, log: int) -> LogEntries:
        """What a log has in all files; the columns are made anew for each pass, because those of all logs may be huge."""
        entries = LogEntries()
        for file, first_unit in zip(self._files, self._first_units, strict=False):
            file.take_entries(log, first_unit, entries)
        return entries

    def _write_own(self, log: int, series: RunSeries, packer: BatchPacker) -> None:
        """The common case: a log that neither refers nor is referred to."""
        parts = [(file, file.by_log[log]) for file in self._files if log in file.by_log]
        first, indices = parts[0]
        series.begin_log(self._class, log, first.bases[indices[0]])
        for file, indices in parts:
            try:
                packer.take(file, indices)
            except OffsetsOverlap:
                raise CorruptData(file.input.path, 0, "offsets overlap", (log,)) from None
        series.end_log(packer.flush())

    def _write_entries(self, log: int, series: RunSeries, packer: BatchPacker) -> None:
        entries, start = self._entries(log), self._starts.get(log, 0)
        alive = bisect_right(entries.nexts, start)
        series.begin_log(self._class, log, entries.firsts[alive])
        if self._plan is None or log not in self._sharing:
            self._copy(entries, alive, len(entries.units), packer)
        else:
            for begin, stop, block in self._plan.parts(entries, start):
                if block is None:
                    self._copy(entries, begin, stop, packer)
                    continue
                packer.flush()
                first, next_ = entries.firsts[begin], entries.nexts[stop - 1]
                load = partial(self._load, entries.units[begin:stop])
                series.add_shared(first, next_, block, load, is_foreign=any(entries.foreign[begin:stop]))
        packer.flush()
        series.end_log(entries.nexts[-1])

    def _copy(self, entries: LogEntries, begin: int, stop: int, packer: BatchPacker) -> None:
        while begin < stop:
            number = self._file_of(entries.units[begin])
            # Within a file the units of a log are in any order, but all of an earlier file come before those of a later one.
            end = bisect_left(entries.units, self._first_units[number + 1], begin, stop)
            packer.take_entries(self._files[number], entries, begin, end, self._first_units[number])
            begin = end

    def _file_of(self, unit: int) -> int:
        return bisect_right(self._first_units, unit) - 1

    def _load(self, units: array[int]) -> SharedContent:
        batches: list[Buffer] = []
        time = -1
        for unit in units:
            number = self._file_of(unit)
            file, index = self._files[number], unit - self._first_units[number]
            batches.append(file.batch(index))
            time = max(time, file.times[index])
        return SharedContent(batches[0] if len(batches) == 1 else b"".join(batches), time, len(batches))
