"""Runs into fewer, larger or smaller runs: log by log, streamed, so that memory does not depend on their size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from mainstem.model.errors import CorruptData
from mainstem.storage.local.merge.compaction import LogCompaction
from mainstem.storage.local.merge.job import MergeJob, MergeOutcome
from mainstem.storage.local.merge.run_series import BlockPacker, RunSeries
from mainstem.storage.local.merge.run_sharing import RunSharing
from mainstem.storage.local.merge.run_source import Piece, RunSource
from mainstem.storage.runtime.disk import Disk


def merge_runs(disk: Disk, job: MergeJob) -> MergeOutcome:
    """Do a job of kind `runs`. Raises CorruptData, and OSError; then nothing is left behind."""
    series = RunSeries(disk, job)
    sources: list[RunSource] = []
    removed = 0
    try:
        for run_input in job.runs:
            # One by one: those opened are closed when one fails.
            sources.append(RunSource(disk, run_input, job.limits.run_chunk_bytes))
        by_class: defaultdict[int, list[int]] = defaultdict(list)
        for log in set().union(*(source.index.logs for source in sources)).difference(job.deleted):
            by_class[job.classes.get(log, 0)].append(log)
        is_shared = any(source.index.is_shared for source in sources)
        for _, logs in sorted(by_class.items()):
            sharing = RunSharing(sources, job, logs) if is_shared else None
            for log in sorted(logs):
                removed += _merge_log(sources, log, job, series, sharing)
        return MergeOutcome(runs=series.complete(), records_removed=removed)
    except BaseException:
        series.discard()
        raise
    finally:
        for source in sources:
            source.close()


def _merge_log(sources: list[RunSource], log: int, job: MergeJob, series: RunSeries, sharing: RunSharing | None) -> int:
    """Copy what is alive of a log from all inputs; answers how many records compaction removed."""
    start = job.starts.get(log, 0)
    parts: list[tuple[int, int, RunSource, int]] = []
    for order, source in enumerate(sources):
        slot = source.index.find(log)
        if slot >= 0 and source.index.nexts[slot] > start:
            parts.append((source.index.firsts[slot], order, source, slot))
    if not parts:
        return 0
    parts.sort(key=lambda part: part[:2])
    series.begin_log(job.classes.get(log, 0), log, max(parts[0][0], start))
    packer = BlockPacker(series, job.block_bytes)
    rule = job.compact.get(log)
    compaction: LogCompaction | None = None
    if sharing is not None and log in sharing.logs:
        sharing.write(log, series, packer)
    else:
        pieces = partial(_pieces, parts, start, log)
        compaction = LogCompaction(rule, job.now_ms, pieces, job.limits.compacted_keys_max) if rule else None
        for piece in pieces() if compaction is None else compaction.pieces():
            packer.add(*piece)
    packer.flush()
    series.end_log(max(source.index.nexts[slot] for _, _, source, slot in parts))
    return 0 if compaction is None else compaction.removed


def _pieces(parts: list[tuple[int, int, RunSource, int]], start: int, log: int) -> Iterator[Piece]:
    covered = 0
    for _, _, source, slot in parts:
        for piece in source.pieces(slot, start):
            if piece.first < covered:
                raise CorruptData(source.path, 0, "offsets overlap those of another run", (log,))
            covered = piece.next
            yield piece
