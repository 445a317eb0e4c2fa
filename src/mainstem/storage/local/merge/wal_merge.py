"""Sealed files of the write-ahead log into runs sorted by retention class, log and offset, and into one state run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from mainstem.model.errors import CorruptData
from mainstem.storage.local.merge.job import MergeJob, MergeOutcome, WalInput
from mainstem.storage.local.merge.run_series import RunSeries, collect_keys
from mainstem.storage.local.merge.sealed_file import Producers, SealedFile, read_sealed_file, read_sealed_heads
from mainstem.storage.local.merge.state_fold import FIRST_GROUP, StateFold
from mainstem.storage.local.merge.wal_segment import WalSegment
from mainstem.storage.local.runs.key_index import KeyTableBuilder
from mainstem.storage.local.runs.run_writer import AdoptedRun
from mainstem.storage.local.runs.state_run import write_state_run
from mainstem.storage.runtime.disk import Disk

ADOPT_LIVE_SHARE_MIN = 0.5
"""A file with less alive is not adopted: as a run it would have to be rewritten at once."""


def merge_wal(disk: Disk, job: MergeJob) -> MergeOutcome:
    """Do a job of kind `wal`. Raises CorruptData, and OSError; then nothing is left behind."""
    series = RunSeries(disk, job)
    fold = StateFold()
    producers: Producers = {}
    state_run: str | None = None
    try:
        # Files between two adopted ones are merged among themselves, so that for every log the runs of one job follow each other.
        segment: list[SealedFile] = []
        for wal_input in job.wal:
            sealed, is_adopted = _read(disk, wal_input, job)
            if job.state_directory is not None:
                fold.take(sealed.state)
                sealed.fold_producers(producers)
                sealed.state = []
            if is_adopted:
                _write_segment(segment, job, series)
                segment = []
                _index_adopted(sealed, job, series)
            else:
                segment.append(sealed)
        _write_segment(segment, job, series)
        runs = series.complete()
        # Last, because a state run counts from the moment it has its name.
        if job.state_directory is not None and job.wal and job.wal[0].first <= job.wal[-1].last:
            fold.take_producers(producers.items())
            from_, to = job.wal[0].first, job.wal[-1].last
            items = fold.items(from_beginning=from_ == FIRST_GROUP)
            state_run = write_state_run(
                disk, job.state_directory, from_, to, job.now_ms, items, job.limits.state_chunk_bytes
            )
    except BaseException:
        series.discard()
        raise
    return MergeOutcome(runs=runs, state_run=state_run)


def _read(disk: Disk, wal_input: WalInput, job: MergeJob) -> tuple[SealedFile, bool]:
    """A file, sorted, and whether it is adopted. If it is, or if nothing in it is alive, its heads are enough."""
    groups = wal_input.last + 1 - wal_input.first
    heads: SealedFile | None = None
    if job.adopt and wal_input.end >= groups * job.limits.large_batch_bytes:
        heads = read_sealed_heads(disk, wal_input, job.limits)
    if heads is not None:
        heads.sort(job.deleted, job.starts)
        if not heads.by_log and not heads.references:
            return heads, False
        if heads.by_log.keys().isdisjoint(job.key_indexed) and _is_adoptable(heads, job):
            return heads, True
    sealed = read_sealed_file(disk, wal_input)
    sealed.sort(job.deleted, job.starts)
    return sealed, job.adopt and _is_adoptable(sealed, job)


def _is_adoptable(sealed: SealedFile, job: MergeJob) -> bool:
    if sealed.references or not sealed.by_log or max(sealed.sizes) < job.limits.large_batch_bytes:
        return False
    sizes = sealed.live_sizes()
    alive = sum(sizes)
    large = sum(size for size in sizes if size >= job.limits.large_batch_bytes)
    return large >= job.adopt_share * alive and alive >= ADOPT_LIVE_SHARE_MIN * sealed.input.end


def _main_class(sealed: SealedFile, job: MergeJob) -> int:
    """The retention class of most of what is alive. When the rest has died, and is more than that, the run is rewritten."""
    sizes: Counter[int] = Counter()
    for log, indices in sealed.by_log.items():
        sizes[job.classes.get(log, 0)] += sum(sealed.sizes[index] for index in indices)
    return sizes.most_common(1)[0][0]


def _index_adopted(sealed: SealedFile, job: MergeJob, series: RunSeries) -> None:
    wal_input = sealed.input
    adopted = series.adopt(wal_input.path, wal_input.generation, wal_input.end, _main_class(sealed, job))
    key_indexed = frozenset(job.key_indexed)
    for log in sorted(sealed.by_log):
        _check_ascending(wal_input.path, log, *_offsets(sealed, sealed.by_log[log]))
        _index_adopted_log(sealed, log, job, adopted, key_indexed=log in key_indexed)


def _index_adopted_log(sealed: SealedFile, log: int, job: MergeJob, adopted: AdoptedRun, *, key_indexed: bool) -> None:
    bases, sizes, positions, times = sealed.bases, sealed.sizes, sealed.positions, sealed.times
    indices = sealed.by_log[log]
    table = KeyTableBuilder() if key_indexed else None
    columns = adopted.columns
    columns.begin_log(log, bases[indices[0]])
    at = 0
    while at < len(indices):
        position = positions[indices[at]]
        end = position
        stop = at
        time = -1
        # A frame header lies between the batches of two groups, so that adjacent ones are of one body.
        while stop < len(indices) and positions[indices[stop]] == end:
            index = indices[stop]
            if stop > at and end + sizes[index] - position > job.block_bytes:
                break
            end += sizes[index]
            time = max(time, times[index])
            stop += 1
        last = indices[stop - 1]
        next_ = bases[last] + sealed.counts[last]
        crc = sealed.checksum(indices[at:stop])
        columns.add_block(bases[indices[at]], next_, time, position, end - position, crc, stop - at)
        if table is not None:
            collect_keys(table, sealed.content[position:end])
            if len(table) >= job.limits.key_table_entries_max:
                adopted.add_key_table(log, table)
                table = KeyTableBuilder()
        at = stop
    if table is not None:
        adopted.add_key_table(log, table)


def _offsets(sealed: SealedFile, indices: Sequence[int]) -> tuple[list[int], list[int]]:
    bases, counts = sealed.bases, sealed.counts
    return [bases[index] for index in indices], [bases[index] + counts[index] for index in indices]


def _check_ascending(path: str, log: int, bases: Sequence[int], nexts: Sequence[int]) -> None:
    # dense offsets, the common case, are seen by comparing whole lists
    if bases[1:] != nexts[:-1] and any(base < end for base, end in zip(bases[1:], nexts[:-1], strict=True)):
        raise CorruptData(path, 0, "offsets overlap", (log,))


def _write_segment(files: list[SealedFile], job: MergeJob, series: RunSeries) -> None:
    """Write the live batches of consecutive files, sorted."""
    by_class: defaultdict[int, list[int]] = defaultdict(list)
    for log in {log for file in files for logs in (file.by_log, file.references) for log in logs}:
        by_class[job.classes.get(log, 0)].append(log)
    for retention_class, logs in sorted(by_class.items()):
        WalSegment(files, job, retention_class, sorted(logs)).write(series)
    series.finish_run()
