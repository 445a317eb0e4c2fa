"""A sealed file of the write-ahead log as a merge sees it: read and checked whole, or by heads; its live batches found by log."""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate, chain
from operator import itemgetter
from typing import NamedTuple

from mainstem.model.errors import CorruptData
from mainstem.storage.disk import Disk
from mainstem.storage.local.batch_packer import indices_by_log, reaching
from mainstem.storage.local.frame import (
    FLAG_CONTROL,
    FLAG_PRODUCER,
    SECTOR_BYTES,
    DataHead,
    RefHead,
    StateItem,
    decode_file_header,
)
from mainstem.storage.local.group import BadGroup, decode_group
from mainstem.storage.local.group_heads import read_heads
from mainstem.storage.local.merge_job import WalInput
from mainstem.storage.producers import RECENT_BATCHES_MAX, Producer
from mainstem.wire.checksum import crc32c, joined_crc32c
from mainstem.wire.record_batch import CRC_AT, CRC_FROM, PRODUCER_ID_AT, place_batch

_producer_id = struct.Struct(">q")
_producer_fields = struct.Struct(">qhi")

Producers = dict[tuple[int, int], Producer]
"""By log and producer id."""


class Reference(NamedTuple):
    """A REF entry: a batch of another log that shall lie in this one too."""

    base: int
    next: int
    time: int
    source: int
    """Index of that batch."""


class SealedFile:
    """Columns over all batches of the file; `by_log` holds the indices of the live ones, in the order of the file."""

    __slots__ = (
        "_flags",
        "_group_times",
        "_logs",
        "bases",
        "by_log",
        "content",
        "counts",
        "input",
        "positions",
        "references",
        "sizes",
        "state",
        "times",
    )

    def __init__(self, wal_input: WalInput, content: memoryview) -> None:
        self.input = wal_input
        self.content = content
        self.bases: array[int] = array("q")
        self.times: array[int] = array("q")
        self.positions: array[int] = array("Q")
        self.sizes: array[int] = array("I")
        self.counts: array[int] = array("I")
        self._logs: array[int] = array("Q")
        self._flags: array[int] = array("B")
        self._group_times: array[int] = array("q")
        self.by_log: dict[int, array[int]] = {}
        self.references: defaultdict[int, list[Reference]] = defaultdict(list)
        self.state: list[StateItem] = []

    def take_data(self, head: DataHead, position: int, time_ms: int) -> None:
        """The batches of one group, the first of them at `position`."""
        count = len(head.logs)
        self._logs.extend(head.logs)
        self._flags.extend(head.flags)
        self._group_times.extend(array("q", [time_ms]) * count)
        self.bases.extend(head.bases)
        self.times.extend(head.times)
        self.sizes.extend(head.sizes)
        self.counts.extend(head.counts)
        self.positions.extend(accumulate(head.sizes[: count - 1], initial=position))

    def take_references(self, head: RefHead, data: DataHead, position: int) -> None:
        """The references of the group whose batches were taken last. Raises CorruptData when one of them leads nowhere."""
        first = len(self._logs) - len(data.logs)
        facts = zip(data.sizes, data.counts, data.crcs, strict=True)
        batches = {
            key: (index, *fact)
            for index, (key, fact) in enumerate(zip(zip(data.logs, data.bases, strict=True), facts, strict=True), first)
        }
        for log, base, time, source, source_base, *fact in zip(*head, strict=True):
            index, *expected = batches.get((source, source_base), (-1,))
            if fact != expected:
                what = f"reference leads to offset {source_base} of log {source}, which is not what it must be"
                raise CorruptData(self.input.path, position, what, (log,))
            self.references[log].append(Reference(base, base + self.counts[index], time, index))

    def sort(self, deleted: Collection[int], starts: Mapping[int, int]) -> None:
        """Find the batches of each log, without the dead ones."""
        by_log = indices_by_log(self._logs)
        bases, counts = self.bases, self.counts
        for log in deleted:
            by_log.pop(log, None)
            self.references.pop(log, None)
        for log in by_log.keys() & starts.keys():
            alive = reaching(by_log[log], bases, counts, starts[log])
            if alive:
                by_log[log] = alive
            else:
                del by_log[log]
        for log in self.references.keys() & starts.keys():
            start = starts[log]
            self.references[log] = [reference for reference in self.references[log] if reference.next > start]
            if not self.references[log]:
                del self.references[log]
        self.by_log = by_log

    def batch(self, index: int) -> memoryview:
        """The bytes of a batch."""
        position = self.positions[index]
        return self.content[position : position + self.sizes[index]]

    def checksum(self, indices: Iterable[int]) -> int:
        """Of batches that lie one behind the other, out of their heads alone: each says what the rest of it sums up to."""
        crc = 0
        for index in indices:
            position = self.positions[index]
            head = self.content[position : position + CRC_FROM]
            crc = joined_crc32c(crc32c(head, crc), int.from_bytes(head[CRC_AT:], "big"), self.sizes[index] - CRC_FROM)
        return crc

    def resolve(self, reference: Reference) -> bytearray:
        """The batch behind a reference, at its place in the referring log."""
        batch = bytearray(self.batch(reference.source))
        place_batch(batch, 0, reference.base, 0)
        return batch

    def live_sizes(self) -> list[int]:
        """Sizes of all live batches."""
        sizes = self.sizes
        return [sizes[index] for index in chain.from_iterable(self.by_log.values())]

    def fold_producers(self, producers: Producers) -> None:
        """Take in what the batches of this file say about their producers, dead ones too: sequences outlive records."""
        content, positions, logs = self.content, self.positions, self._logs
        if not any(self._flags.tobytes()):
            return
        touched: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        unpack_id = _producer_id.unpack_from
        for index, flags in enumerate(self._flags):
            if flags & FLAG_PRODUCER:
                touched[logs[index], unpack_id(content, positions[index] + PRODUCER_ID_AT)[0]].append(index)
        for key, indices in touched.items():
            producer = producers.get(key)
            if producer is None:
                producers[key] = self._replay(None, indices)
            else:
                self._replay(producer, indices)

    def _replay(self, producer: Producer | None, indices: list[int]) -> Producer:
        content, positions, flags = self.content, self.positions, self._flags
        # Only the last five batches are remembered, so only they are replayed, with the markers among them.
        first = len(indices)
        batches = 0
        while first and batches < RECENT_BATCHES_MAX:
            first -= 1
            batches += not flags[indices[first]] & FLAG_CONTROL
        for index in indices[first:]:
            _, epoch, sequence = _producer_fields.unpack_from(content, positions[index] + PRODUCER_ID_AT)
            if producer is None:
                producer = Producer(epoch)
            if flags[index] & FLAG_CONTROL:
                producer.replay_marker(epoch, 0)
            else:
                producer.replay(epoch, sequence, self.counts[index], self.bases[index], 0)
        assert producer is not None
        times = itemgetter(*indices, indices[0])(self._group_times)  # two at least: one alone would not be a tuple
        producer.last_ms = max(producer.last_ms, *times)
        return producer


def read_sealed_file(disk: Disk, wal_input: WalInput) -> SealedFile:
    """Read a file and check every group in it. Raises CorruptData."""
    file = disk.open(wal_input.path, writable=False)
    try:
        content = memoryview(file.read(wal_input.end, 0))
    finally:
        file.close()
    return _decode(wal_input, content, by_heads=False)


def read_sealed_heads(disk: Disk, wal_input: WalInput) -> SealedFile | None:
    """Read of a file of large batches what says what is in it, and check that; not what they hold. Raises CorruptData."""
    file = disk.open(wal_input.path, writable=False)
    try:
        content = read_heads(file, wal_input.end)
    finally:
        file.close()
    return None if content is None else _decode(wal_input, content, by_heads=True)


def _decode(wal_input: WalInput, content: memoryview, *, by_heads: bool) -> SealedFile:
    path = wal_input.path
    header = decode_file_header(bytes(content[:SECTOR_BYTES]), path)
    if header is None or header.generation != wal_input.generation or header.first != wal_input.first:
        raise CorruptData(path, 0, "header of the file is not what it must be")
    sealed = SealedFile(wal_input, content)
    position = SECTOR_BYTES
    for sequence in range(wal_input.first, wal_input.last + 1):
        try:
            group = decode_group(content, position, wal_input.generation, sequence, by_heads=by_heads)
        except BadGroup as error:
            raise CorruptData(path, error.position, error.what, error.logs) from error
        if group.data is not None:
            sealed.take_data(group.data, group.data_position, group.time_ms)
        if group.refs is not None:
            if group.data is None:
                raise CorruptData(path, position, "references without batches", tuple(sorted(set(group.refs.logs))))
            sealed.take_references(group.refs, group.data, position)
        sealed.state += group.state
        position = group.end
    if position != wal_input.end:
        raise CorruptData(path, position, f"the last group does not end at {wal_input.end}")
    return sealed
