"""A sealed file of the write-ahead log as a merge sees it: read and checked whole, or by heads; its live batches found by log."""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate, chain
from operator import itemgetter

from mainstem.model.errors import CorruptData
from mainstem.storage.local.frame import (
    FLAG_CONTROL,
    FLAG_PRODUCER,
    SECTOR_BYTES,
    DataHead,
    RefHead,
    StateItem,
    decode_file_header,
)
from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.local.merge.batch_packer import indices_by_log, reaching
from mainstem.storage.local.merge.job import WalInput
from mainstem.storage.local.runs.shared_entries import LogEntries, find_sources, take_batches
from mainstem.storage.local.wal.group_heads import read_heads
from mainstem.storage.local.wal.stored_group import BadGroup, decode_group
from mainstem.storage.runtime.disk import Disk
from mainstem.storage.sequencer.producers import RECENT_BATCHES_MAX, Producer
from mainstem.wire.checksum import crc32c, joined_crc32c
from mainstem.wire.record_batch import CRC_AT, CRC_FROM, PRODUCER_ID_AT

_producer_id = struct.Struct(">q")
_producer_fields = struct.Struct(">qhi")

_NOTHING = array("I")

Producers = dict[tuple[int, int], Producer]
"""By log and producer id."""


class SealedFile:
    """Columns over all batches of the file; `by_log` holds the indices of the live ones, in the order of the file.

    `references` holds the same of the REF entries, over columns of their own, but for dead ones too if the log has any live one:
    to share blocks with other logs it must be cut where they are.
    """

    __slots__ = (
        "_flags",
        "_group_times",
        "_logs",
        "_ref_logs",
        "bases",
        "by_log",
        "content",
        "counts",
        "input",
        "positions",
        "ref_bases",
        "ref_sources",
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
        self._ref_logs: array[int] = array("Q")
        self.ref_bases: array[int] = array("q")
        self.ref_sources: array[int] = array("I")
        """Which batch each reference names."""
        self.references: dict[int, array[int]] = {}
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
        bad = find_sources(data, head, len(self._logs) - len(data.logs), self.ref_sources)
        if bad >= 0:
            source, base = head.sources[bad], head.source_bases[bad]
            what = f"reference leads to offset {base} of log {source}, which is not what it must be"
            raise CorruptData(self.input.path, position, what, (head.logs[bad],))
        self._ref_logs.extend(head.logs)
        self.ref_bases.extend(head.bases)

    def sort(self, deleted: Collection[int], starts: Mapping[int, int]) -> None:
        """Find the batches and references of each log, without those of logs that need none."""
        by_log, references = indices_by_log(self._logs), indices_by_log(self._ref_logs)
        bases, counts = self.bases, self.counts
        for log in deleted:
            by_log.pop(log, None)
            references.pop(log, None)
        for log in by_log.keys() & starts.keys():
            alive = reaching(by_log[log], bases, counts, starts[log])
            if alive:
                by_log[log] = alive
            else:
                del by_log[log]
        for log in references.keys() & starts.keys():
            last = references[log][-1]
            if self.ref_bases[last] + counts[self.ref_sources[last]] <= starts[log]:
                del references[log]
        self.by_log, self.references = by_log, references

    def sharing_logs(self) -> set[int]:
        """Logs whose batches others may have too: those that refer, and those they refer to."""
        if not self.references:
            return set()
        logs = self._logs
        return self.references.keys() | {logs[index] for index in set(self.ref_sources)}

    def take_entries(self, log: int, first_unit: int, entries: LogEntries) -> None:
        """Append what a log has in this file. Raises CorruptData."""
        own, refs = self.by_log.get(log, _NOTHING), self.references.get(log, _NOTHING)
        sizes, counts, bases = self.sizes, self.counts, self.bases
        if not take_batches(entries, bases, counts, sizes, own, refs, self.ref_bases, self.ref_sources, first_unit):
            raise CorruptData(self.input.path, 0, "offsets overlap", (log,))

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


def read_sealed_heads(disk: Disk, wal_input: WalInput, limits: MergeLimits) -> SealedFile | None:
    """Read of a file of large batches what says what is in it, and check that; not what they hold. Raises CorruptData."""
    file = disk.open(wal_input.path, writable=False)
    try:
        content = read_heads(file, wal_input.end, limits)
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
