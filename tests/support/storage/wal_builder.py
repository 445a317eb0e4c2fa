"""Builds files of the write-ahead log, and says what must be found in them."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from crc32c import crc32c

from mainstem.storage.contract import Buffer
from mainstem.storage.local.frame import (
    DATA,
    REF,
    STATE,
    DataHead,
    FileHeader,
    RefHead,
    encode_commit,
    encode_data_head,
    encode_file_header,
    encode_frame,
    encode_ref_head,
    encode_state_head,
    pad_to_sector,
)
from mainstem.storage.local.merge.job import (
    MergeJob,
    MergeOutcome,
    RunInput,
    RunOutput,
    StateJob,
    WalInput,
    decode_outcome,
    encode_job,
)
from mainstem.storage.local.merge.merge import run_merge_job
from mainstem.storage.local.runs.run_blocks import place_batches
from mainstem.storage.local.runs.run_file import RunIndex
from mainstem.storage.runtime.disk import LocalDisk, LocalFile
from mainstem.storage.sequencer.entries import FLAG_CONTROL, FLAG_PRODUCER, FLAG_TRANSACTIONAL, StateItem
from mainstem.wire.record_batch import batches_in, encode_batch, encode_marker, place_batch, read_header

NODE = bytes(range(16))


def plain_batch(size: int = 0, count: int = 1, time_ms: int = 1000, **fields: int) -> bytearray:
    """A batch of `count` records with values of `size` bytes."""
    return encode_batch([(i, time_ms + i, b"k%d" % i, b"v" * size, ()) for i in range(count)], **fields)  # type: ignore[arg-type]


class WalBuilder:
    """Groups, and the files that hold them. Offsets are given out densely, as the engine does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.nexts: defaultdict[int, int] = defaultdict(int)
        self.expected: defaultdict[int, list[bytes]] = defaultdict(list)
        """Log -> its batches as they must be found."""
        self.inputs: list[WalInput] = []
        self._sequence = 0
        self._generation = 0
        self._begin_file()
        self._begin_group()

    def _begin_file(self) -> None:
        self._generation += 1
        self._first = self._sequence + 1
        header = FileHeader(self._generation, self._first, self._sequence, NODE, 1)
        self._content = bytearray(encode_file_header(header))

    def _begin_group(self) -> None:
        self._data = DataHead([], [], [], [], [], [], [])
        self._refs = RefHead([], [], [], [], [], [], [], [])
        self._state: list[StateItem] = []
        self._bodies: list[bytes] = []

    def append(self, log: int, batch: Buffer) -> int:
        """Put a batch into the current group; answers its base offset."""
        placed = bytearray(batch)
        base = self.nexts[log]
        place_batch(placed, 0, base, 0)
        header = read_header(placed)
        self.nexts[log] = header.next_offset
        self.expected[log].append(bytes(placed))
        flags = (FLAG_PRODUCER if header.producer_id >= 0 else 0) | (
            FLAG_TRANSACTIONAL if header.is_transactional else 0
        )
        flags |= FLAG_CONTROL if header.is_control else 0
        row = (log, base, header.max_timestamp, len(placed), header.last_offset_delta + 1, header.crc, flags)
        for column, value in zip(self._data, row, strict=True):
            column.append(value)  # type: ignore[attr-defined]
        self._bodies.append(bytes(placed))
        return base

    def mark(self, log: int, producer_id: int, epoch: int, *, commit: bool, time_ms: int = 1000) -> int:
        """End a transaction."""
        return self.append(log, encode_marker(producer_id, epoch, commit=commit, timestamp_ms=time_ms))

    def refer(self, log: int, index: int) -> None:
        """Put a batch of the current group, by its index, into another log too."""
        base = self.nexts[log]
        batch = bytearray(self._bodies[index])
        place_batch(batch, 0, base, 0)
        self.expected[log].append(bytes(batch))
        data = self._data
        self.nexts[log] = base + data.counts[index]
        source = (data.logs[index], data.bases[index], data.sizes[index], data.counts[index], data.crcs[index])
        row = (log, base, data.times[index], *source)
        for column, value in zip(self._refs, row, strict=True):
            column.append(value)  # type: ignore[attr-defined]

    def mutate(self, scope: str, key: bytes, value: bytes | None) -> None:
        """Put a mutation into the current group."""
        self._state.append((scope, key, value))

    def end_group(self, time_ms: int = 5000) -> int:
        """Close the group; answers its number."""
        self._sequence += 1
        proven = self._sequence - 1
        crcs: list[int] = []
        frames = [(DATA, encode_data_head(self._data), b"".join(self._bodies), self._data.logs)]
        frames += [(REF, encode_ref_head(self._refs), b"", self._refs.logs)]
        frames += [(STATE, encode_state_head(self._state), b"", self._state)]  # type: ignore[list-item]
        for kind, head, body, present in frames:
            if present:
                frame, crc = encode_frame(kind, head, len(body), self._generation, self._sequence, proven)
                self._content += frame + body
                crcs.append(crc)
        self._content += encode_commit(crcs, time_ms, self._generation, self._sequence, proven)
        self._content += bytes(pad_to_sector(len(self._content)))
        self._begin_group()
        return self._sequence

    def end_file(self, slack: int = 0) -> WalInput:
        """Write the file, with `slack` bytes of an earlier use behind it."""
        path = self.directory / f"{self._generation:016x}.wal"
        path.write_bytes(self._content + b"\xa5" * slack)
        entry = WalInput(str(path), self._generation, self._first, self._sequence, len(self._content))
        self.inputs.append(entry)
        self._begin_file()
        return entry


class UnsyncedFile(LocalFile):
    def sync(self) -> None:
        pass


class UnsyncedDisk(LocalDisk):
    """Real files, not waiting for the disk: what syncs are for is tested on a simulated one."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> LocalFile:
        flags = os.O_RDWR if writable or create else os.O_RDONLY
        return UnsyncedFile(path, flags | (os.O_CREAT | os.O_EXCL if create else 0))

    def sync_directory(self, path: str) -> None:
        pass


class Workspace:
    """Directories of a node, and jobs on them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = UnsyncedDisk()
        for name in ("wal", "runs", "more", "state"):
            (root / name).mkdir(parents=True)
        self.wal = WalBuilder(root / "wal")
        self.run_id = 1

    def wal_job(self, **changes: object) -> MergeJob:
        job = MergeJob("wal", 77, wal=list(self.wal.inputs), output_directories=[self.runs], first_run_id=self.run_id)
        job.state_directory = str(self.root / "state")
        for name, value in changes.items():
            assert hasattr(job, name)
            setattr(job, name, value)
        return job

    def runs_job(self, outputs: list[RunOutput], **changes: object) -> MergeJob:
        inputs = [RunInput(output.path, output.id) for output in outputs]
        job = MergeJob("runs", 78, runs=inputs, output_directories=[self.runs], first_run_id=self.run_id)
        for name, value in changes.items():
            assert hasattr(job, name)
            setattr(job, name, value)
        return job

    @property
    def runs(self) -> str:
        return str(self.root / "runs")

    def do(self, job: MergeJob | StateJob) -> MergeOutcome:
        outcome = decode_outcome(run_merge_job(self.disk, encode_job(job)))
        self.run_id += len(outcome.runs)
        return outcome

    def done(self, job: MergeJob | StateJob) -> MergeOutcome:
        outcome = self.do(job)
        assert outcome.damage is None
        assert outcome.error is None
        return outcome

    def load(self, path: str) -> RunIndex:
        file = self.disk.open(path, writable=False)
        try:
            return RunIndex.load(file)
        finally:
            file.close()

    def files(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}

    def content(self, outputs: list[RunOutput]) -> dict[int, list[bytes]]:
        """Log -> batches in all runs, in the order of the runs; every column of the index is checked on the way."""
        found: defaultdict[int, list[bytes]] = defaultdict(list)
        for output in outputs:
            index = self.load(output.path)
            data = Path(output.path).read_bytes()
            assert (index.id, index.retention_class, index.tier) == (output.id, output.retention_class, output.tier)
            assert len(data) == output.bytes
            assert list(index.logs) == sorted(set(index.logs))
            for slot, log in enumerate(index.logs):
                found[log] += check_log(index, slot, data)
        return dict(found)


def check_log(index: RunIndex, slot: int, data: bytes) -> list[bytes]:
    """The batches of one log in a run; asserts that the index says what they are."""
    assert index.find(index.logs[slot]) == slot
    batches: list[bytes] = []
    covered = index.firsts[slot]
    size = 0
    times = [-1]
    for block in index.blocks(slot):
        position = index.block_positions[block]
        content = data[position : position + index.block_sizes[block]]
        assert crc32c(content) == index.block_crcs[block]
        if index.is_shared and index.block_foreign[block]:
            content = bytearray(content)
            assert place_batches(content, index.block_firsts[block]) == index.block_nexts[block]
        parts = [bytes(content[at : at + count]) for at, count in batches_in(content)]
        headers = [read_header(part) for part in parts]
        assert index.block_firsts[block] == headers[0].base_offset >= covered
        assert index.block_nexts[block] == headers[-1].next_offset
        assert index.block_times[block] == max(header.max_timestamp for header in headers)
        assert index.block_batches[block] == len(parts)
        assert all(a.next_offset <= b.base_offset for a, b in zip(headers, headers[1:], strict=False))
        for header in headers:
            assert index.block_for(slot, header.base_offset) == block
            assert index.block_for(slot, header.last_offset) == block
        covered = index.block_nexts[block]
        size += len(content)
        times.append(index.block_times[block])
        batches += parts
    assert index.nexts[slot] >= covered
    assert index.block_for(slot, index.nexts[slot]) == index.blocks(slot).stop
    assert index.bytes[slot] == size
    assert index.times[slot] == max(times)
    return batches
