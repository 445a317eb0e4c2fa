"""One task's rows on their way to its stage: gathered, directed to partitions, cut into batches, sent.

Arrow batches are gathered until there are enough bytes for full batches to many partitions. Then all of their rows are put in the
order of destination and encoded at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.model.staging import LABEL_POSITIONS
from mainstem.pipelines.codec.batch_encoding import encode_batches, row_sizes
from mainstem.pipelines.codec.partitioner import Integers, StickyPartition, partitions_by_key
from mainstem.pipelines.errors import PipelineError, SchemaMismatch
from mainstem.pipelines.sink.columns import LARGE_BINARY, due_times, given_partitions, take_rows
from mainstem.sdk.client import Client
from mainstem.sdk.stages import StagedBatch, StageWriter, batch_bytes_max

GATHER_BYTES = 16 << 20
"""What is gathered before it is encoded."""
BATCH_BYTES = 512 << 10
"""A batch is cut about here, or at what its topic takes, before compression."""
REQUEST_BYTES = 4 << 20
BATCH_HEADER_BYTES = 61


class Destinations:
    """Topics as they are met: how many partitions, and how large a batch."""

    def __init__(self, client: Client, batch_bytes: int) -> None:
        self._client = client
        self._batch_bytes = batch_bytes
        self._known: dict[str, tuple[int, int]] = {}

    def of(self, topic: str) -> tuple[int, int]:
        """Partitions, and bytes of a batch. A topic that is missing is created, if the broker does so; else UnknownTopic."""
        known = self._known.get(topic)
        if known is None:
            partitions = len(self._client.cluster([topic], create=True).leaders[topic])
            bytes_max = min(self._batch_bytes, batch_bytes_max(self._client, topic))
            known = self._known[topic] = partitions, bytes_max - BATCH_HEADER_BYTES
        return known


class StagedRows:
    """What a task has written."""

    def __init__(
        self,
        client: Client,
        writer: StageWriter,
        topic: str | None,
        compression: int,
        first: int,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self._writer = writer
        self._topic = topic
        self._compression = compression
        self._destinations = Destinations(client, batch_bytes)
        self._sticky = StickyPartition(first, batch_bytes)
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self.position = 0
        """Where the stage ends."""
        self.records = 0

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Everything, acknowledged when this returns."""
        for batch in batches:
            self._gathered.append(batch)
            self._gathered_bytes += batch.nbytes
            if self._gathered_bytes >= GATHER_BYTES:
                self._write_gathered()
        self._write_gathered()
        self._writer.flush()

    def _write_gathered(self) -> None:
        table = pa.Table.from_batches(self._gathered) if self._gathered else None
        self._gathered, self._gathered_bytes = [], 0
        if table is None or not table.num_rows:
            return
        self.records += table.num_rows
        if self._topic is not None:
            self._write_topic(self._topic, table)
            return
        topics = table.column("topic").combine_chunks()
        if topics.null_count:
            raise SchemaMismatch("A row has no topic: its column `topic` is null, and there is no option `topic`.")
        for topic in pc.unique(topics).to_pylist():
            self._write_topic(topic, table.filter(pc.equal(table.column("topic"), topic)))

    def _write_topic(self, topic: str, table: pa.Table) -> None:
        now_ms = time.time_ns() // 1_000_000
        due_ms = due_times(table)
        if due_ms is None:
            self._write_rows(topic, table, now_ms)
            return
        later = due_ms > now_ms
        if not later.all():
            self._write_rows(topic, table.filter(pa.array(~later)), now_ms)
        if later.any():
            self._write_rows(topic, table.filter(pa.array(later)), now_ms, due_ms[later])

    def _write_rows(self, topic: str, table: pa.Table, now_ms: int, due_ms: Integers | None = None) -> None:
        """Rows that are to be published with their batch, or each when it is due."""
        count, bytes_max = self._destinations.of(topic)
        partitions = self._direct(topic, table, count)
        order = in_order_of(partitions, count)
        rows = take_rows(table, order, now_ms, due_ms)
        ordered = partitions[order]
        firsts = cut_batches(ordered, row_sizes(rows), bytes_max)
        counts = np.diff(firsts, append=table.num_rows)
        ends = self.position + np.cumsum(counts + LABEL_POSITIONS)
        starts = ends - counts - LABEL_POSITIONS
        batches = encode_batches(rows, firsts, starts.tolist(), self._compression)
        self.position = int(ends[-1])
        self._send(
            [
                StagedBatch(topic, partition, batch, due_ms is not None)
                for partition, batch in zip(ordered[firsts].tolist(), batches, strict=True)
            ]
        )

    def _direct(self, topic: str, table: pa.Table, count: int) -> Integers:
        """The partition of each row."""
        asked = given_partitions(table)
        if asked is not None:
            if int(asked.max()) >= count:
                raise PipelineError(
                    f"A row asks for partition {int(asked.max())} of topic {topic!r}, which has {count}."
                )
            if int(asked.min()) >= 0:
                return asked
        directed = self._by_key(table, count)
        return directed if asked is None else np.where(asked >= 0, asked, directed)

    def _by_key(self, table: pa.Table, count: int) -> Integers:
        if count == 1:
            return np.zeros(table.num_rows, np.int64)
        sizes = np.full(table.num_rows, max(1, table.nbytes // table.num_rows), np.int64)
        if "key" not in table.column_names:
            return self._sticky.take(sizes, count)
        keys = table.column("key").combine_chunks()
        if isinstance(keys, pa.ChunkedArray):
            keys = pa.concat_arrays(keys.chunks)
        if keys.null_count == len(keys):
            return self._sticky.take(sizes, count)
        partitions = partitions_by_key(keys.cast(LARGE_BINARY), count)
        if keys.null_count:
            without = pc.is_null(keys).to_numpy(zero_copy_only=False)
            partitions[without] = self._sticky.take(sizes[without], count)
        return partitions

    def _send(self, batches: list[StagedBatch]) -> None:
        """Requests of some size, in which each partition comes once."""
        request: list[StagedBatch] = []
        size, last = 0, None
        for staged in batches:
            if request and (staged.partition == last or size + len(staged.batch) > REQUEST_BYTES):
                self._writer.write(request)
                request, size = [], 0
            request.append(staged)
            size += len(staged.batch)
            last = staged.partition
        self._writer.write(request)


def in_order_of(partitions: Integers, count: int) -> Integers:
    """The rows by partition, those of one as they came."""
    if count == 1:
        return np.arange(len(partitions))
    # Small numbers are sorted by digits, in a fraction of the time.
    return np.argsort(partitions.astype(np.uint16) if count <= 1 << 16 else partitions, kind="stable")


def cut_batches(partitions: Integers, sizes: Integers, bytes_max: int) -> Integers:
    """The rows with which batches begin: where the partition changes, and where one is full.

    Rows are in the order of their partitions. A row that is larger than a batch may be is one of its own.
    """
    starts = np.flatnonzero(np.diff(partitions, prepend=partitions[0] - 1))
    ends = np.append(starts[1:], len(partitions))
    total = np.cumsum(sizes)
    firsts: list[int] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        first = start
        while first < end:
            firsts.append(first)
            before = int(total[first] - sizes[first])
            full = int(np.searchsorted(total, before + bytes_max, side="right"))
            first = max(first + 1, min(full, end))
    return np.array(firsts, np.int64)
