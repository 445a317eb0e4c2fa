"""The runs that one job writes: split by retention class and size, spread over directories, and taken back when the job fails."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mainstem.model.errors import InvalidBatch
from mainstem.storage.contract import Buffer
from mainstem.storage.local.merge.job import MergeJob, RunOutput
from mainstem.storage.local.runs.block_sharing import SharedBlock
from mainstem.storage.local.runs.key_index import KeyTableBuilder
from mainstem.storage.local.runs.run_file import RunFacts
from mainstem.storage.local.runs.run_writer import AdoptedRun, RunWriter
from mainstem.storage.runtime.disk import Disk
from mainstem.wire.checksum import crc32c
from mainstem.wire.record_batch import CONTROL, batches_in, decode_keys, read_header


class SharedContent(NamedTuple):
    """What a shared block consists of."""

    data: Buffer
    time: int
    batches: int


class RunSeries:
    """Takes blocks by retention class, log and offset, and makes runs of them."""

    def __init__(self, disk: Disk, job: MergeJob) -> None:
        self._disk = disk
        self._job = job
        self._key_indexed = frozenset(job.key_indexed)
        self._next_id = job.first_run_id
        self._writer: RunWriter | None = None
        self._log = -1
        self._keys: KeyTableBuilder | None = None
        self._bytes = 0
        self._written: list[RunOutput] = []
        self._adopted: list[AdoptedRun] = []

    def begin_log(self, retention_class: int, log: int, first: int) -> None:
        """What follows is of this log, covered from `first` on."""
        if self._writer is not None and self._writer.facts.retention_class != retention_class:
            self.finish_run()
        writer = self._writer or self._begin_run(retention_class)
        self._log = log
        self._keys = KeyTableBuilder() if log in self._key_indexed else None
        writer.begin_log(log, first)

    def add_block(self, first: int, next_: int, time: int, data: Buffer, crc: int, batches: int) -> None:
        """The next block of the log; when the run is full, it begins the next one. Raises OSError where there is no room."""
        writer = self._make_room(len(data))
        writer.add_block(first, next_, time, data, crc, batches)
        if self._keys is not None:
            collect_keys(self._keys, data)
            if len(self._keys) >= self._job.limits.key_table_entries_max:
                writer.add_key_table(self._keys)
                self._keys = KeyTableBuilder()

    def add_shared(
        self, first: int, next_: int, block: SharedBlock, load: Callable[[], SharedContent], *, is_foreign: bool
    ) -> None:
        """The next block of the log is one that others have too; its content is loaded if this run does not hold it yet."""
        assert self._keys is None, "the offsets in a key table are those in the block"
        writer = self._writer
        assert writer is not None
        if block.run != writer.facts.id:
            data, block.time, block.batches = load()
            block.size, block.crc = len(data), crc32c(data)
            writer = self._make_room(block.size)
            block.run, block.position = writer.facts.id, writer.add_bytes(data)
        writer.add_shared(first, next_, block, is_foreign=is_foreign)

    def _make_room(self, size: int) -> RunWriter:
        """The run that takes the next bytes: another one when this one is full. Raises OSError where there is no room."""
        self._bytes += size
        if self._bytes > self._job.output_bytes_max:
            raise OSError(errno.ENOSPC, f"the runs would have more than the {self._job.output_bytes_max} bytes left")
        writer = self._writer
        assert writer is not None
        if writer.bytes + size > self._job.run_bytes_max and not writer.is_empty:
            covered = self.end_log(0)
            retention_class = writer.facts.retention_class
            self.finish_run()
            self.begin_log(retention_class, self._log, covered)
            writer = self._writer
            assert writer is not None
        return writer

    def end_log(self, next_: int) -> int:
        """The log is covered up to `next_`, at least to the end of its last block; answers which."""
        writer = self._writer
        assert writer is not None
        if self._keys is not None:
            writer.add_key_table(self._keys)  # an empty one too: it says that the log is indexed
        return writer.end_log(next_)

    def finish_run(self) -> None:
        """What follows goes into another run."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            size = writer.finish()
        except BaseException:
            writer.abandon()
            raise
        facts = writer.facts
        self._written.append(RunOutput(facts.id, writer.path, facts.retention_class, facts.tier, size))

    def adopt(self, path: str, generation: int, end: int, retention_class: int) -> AdoptedRun:
        """A sealed file that becomes a run; the caller fills its index, `complete` writes it."""
        adopted = AdoptedRun(path, generation, end, self._take_facts(retention_class))
        self._adopted.append(adopted)
        return adopted

    def complete(self) -> list[RunOutput]:
        """Finish all; answers the runs, oldest first."""
        self.finish_run()
        outputs = list(self._written)
        # last of all, because these are not ours to remove should anything else fail
        for run in self._adopted:
            size = run.write(self._disk)
            facts = run.facts
            outputs.append(RunOutput(facts.id, run.path, facts.retention_class, facts.tier, size, run.generation))
        return sorted(outputs, key=lambda output: output.id)

    def discard(self) -> None:
        """Leave nothing behind, as far as the disk lets us."""
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None
        for output in self._written:
            with contextlib.suppress(OSError):
                self._disk.remove(output.path)
        for run in self._adopted:
            run.revert(self._disk)

    def _begin_run(self, retention_class: int) -> RunWriter:
        facts = self._take_facts(retention_class)
        directories = self._job.output_directories
        directory = directories[(facts.id - self._job.first_run_id) % len(directories)]
        self._writer = RunWriter(self._disk, directory, facts, self._job.limits)
        return self._writer

    def _take_facts(self, retention_class: int) -> RunFacts:
        facts = RunFacts(self._next_id, retention_class, self._job.tier, self._job.now_ms)
        self._next_id += 1
        return facts


class BlockPacker:
    """Joins pieces of one log, each of whole batches, into blocks of about `block_bytes`."""

    def __init__(self, series: RunSeries, block_bytes: int) -> None:
        self._series = series
        self._block_bytes = block_bytes
        self._pieces: list[Buffer] = []
        self._bytes = 0
        self._first = self._next = self._batches = self._crc = 0
        self._time = -1

    def add(self, first: int, next_: int, time: int, data: Buffer, crc: int | None, batches: int) -> None:
        """The next piece; `crc` where it is known."""
        size = len(data)
        if self._pieces and self._bytes + size > self._block_bytes:
            self.flush()
        if not self._pieces:
            self._first = first
            self._time = time
            self._crc = crc32c(data) if crc is None else crc
        else:
            self._time = max(self._time, time)
        self._next = next_
        self._pieces.append(data)
        self._bytes += size
        self._batches += batches

    def flush(self) -> None:
        """Hand over what is there."""
        pieces = self._pieces
        if not pieces:
            return
        if len(pieces) == 1:
            data, crc = pieces[0], self._crc
        else:
            data = b"".join(pieces)
            crc = crc32c(data)
        self._series.add_block(self._first, self._next, self._time, data, crc, self._batches)
        self._pieces = []
        self._bytes = self._batches = 0


def collect_keys(table: KeyTableBuilder, data: Buffer) -> None:
    """Put every record of a block that has a key into the table; batches that cannot be decoded have none to offer."""
    view = memoryview(data)
    for position, size in batches_in(view):
        if read_header(view, position).attributes & CONTROL:
            continue
        with contextlib.suppress(InvalidBatch):
            _add_keys(table, decode_keys(view[position : position + size]))


def _add_keys(table: KeyTableBuilder, facts: Iterable[tuple[int, int, bytes | None, bool]]) -> None:
    for offset, _, key, _ in facts:
        if key is not None:
            table.add(key, offset)
