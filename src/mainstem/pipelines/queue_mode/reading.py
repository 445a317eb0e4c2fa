"""Reading what an acquisition holds: on executors, by raw batches, as any other read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.pipelines.codec.batch_decoding import Columns, decode_batches
from mainstem.pipelines.errors import plain_errors
from mainstem.pipelines.queue_mode.columns import SEPARATOR, HeldOffsets, with_added, without_added
from mainstem.pipelines.queue_mode.options import QueueOptions
from mainstem.pipelines.source.columns import record_batch
from mainstem.pipelines.source.log_reading import LogReader, next_offset, visible_batches
from mainstem.pipelines.source.offset_range import OffsetRange
from mainstem.pipelines.source.source import TopicScan
from mainstem.pipelines.task_identity import batch_of
from mainstem.sdk.acquisitions import HeldLog
from mainstem.sdk.operations import Fetched

GAP_OFFSETS_MAX = 10_000
"""What lies between two stretches is read too, and dropped, if it is not more than this."""

Stretches = Sequence[tuple[int, int, int]]


class HeldPart(InputPartition):
    """What one task reads: stretches of one log."""

    def __init__(self, acquisition: str, http: str, held: HeldLog, *, is_settled: bool) -> None:
        self.acquisition = acquisition
        self.http = http
        self.held = held
        self.is_settled = is_settled
        """Then it is read for a second time, and what retention took meanwhile is not missed."""

    def __repr__(self) -> str:
        records = sum(last - first + 1 for first, last, _ in self.held.stretches)
        return f"{records} records of {self.acquisition} in {self.held.topic or self.held.log}-{self.held.partition}"


def split_held(held: Sequence[HeldLog], parts_min: int | None) -> list[HeldLog]:
    """A part for each log; more, about equal ones, if more are wanted."""
    total = sum(_size(log.stretches) for log in held)
    if parts_min is None or len(held) >= parts_min or not total:
        return list(held)
    parts: list[HeldLog] = []
    for log in held:
        count = max(round(_size(log.stretches) * parts_min / total), 1)
        parts += [log._replace(stretches=cut) for cut in _cut(log.stretches, -(-_size(log.stretches) // count))]
    return parts


def _cut(stretches: Stretches, size: int) -> Iterator[list[tuple[int, int, int]]]:
    part: list[tuple[int, int, int]] = []
    room = size
    for first, last, deliveries in stretches:
        while first <= last:
            end = min(last, first + room - 1)
            part.append((first, end, deliveries))
            room -= end - first + 1
            first = end + 1
            if not room:
                yield part
                part, room = [], size
    if part:
        yield part


def _size(stretches: Stretches) -> int:
    return sum(last - first + 1 for first, last, _ in stretches)


def ranges_of(stretches: Stretches) -> Iterator[tuple[int, int]]:
    """What is to be read: stretches that are near each other at once."""
    first, end = stretches[0][0], stretches[0][1] + 1
    for begin, last, _ in stretches[1:]:
        if begin - end > GAP_OFFSETS_MAX:
            yield first, end
            first = begin
        end = last + 1
    yield first, end


class HeldScan:
    """Turns what is held into Arrow. Pickled to executors."""

    def __init__(self, options: QueueOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._scan = TopicScan(options.scan, without_added(schema))

    def read(self, part: HeldPart) -> Iterator[pa.RecordBatch]:
        """Runs in a task: tells the broker first in which batch this is, so that the batch's output can settle it."""
        of = batch_of(TaskContext.get())
        with plain_errors():
            if of is not None:
                self._options.acquisitions(part.http).read(part.acquisition, *of)
            yield from self._read(part)

    def _read(self, part: HeldPart) -> Iterator[pa.RecordBatch]:
        scan, held = self._scan, HeldOffsets(part.held.stretches)
        inner, outer = to_arrow_schema(scan.schema, timezone="UTC"), to_arrow_schema(self._schema, timezone="UTC")
        prefix = SEPARATOR.join((part.acquisition, str(part.held.log)))
        topic = part.held.topic or self._options.subscribed.name
        for columns in self._columns(part):
            selected, deliveries = held.select(columns)
            if len(selected.offsets):
                source = OffsetRange(topic, part.held.partition, 0, 0)
                rows = record_batch(selected, source, scan.schema, scan.value_format, inner)
                yield with_added(rows, outer, prefix, selected.offsets, deliveries)

    def _columns(self, part: HeldPart) -> Iterator[Columns]:
        options, with_headers = self._options.scan, "headers" in self._scan.schema.fieldNames()
        decoder = options.chosen_decoder()
        if part.held.topic is None:
            yield from self._hidden(part, with_headers, decoder)
            return
        with options.client() as client:
            is_loss_an_error = options.is_loss_an_error and not part.is_settled
            reader = LogReader(client, with_headers=with_headers, decoder=decoder, is_loss_an_error=is_loss_an_error)
            for first, end in ranges_of(part.held.stretches):
                yield from reader.read(OffsetRange(part.held.topic, part.held.partition, first, end))

    def _hidden(self, part: HeldPart, with_headers: bool, decoder: str) -> Iterator[Columns]:
        """Of a log that Kafka's protocol does not show: a queue of another virtual host."""
        calls = self._options.acquisitions(part.http)
        for first, end in ranges_of(part.held.stretches):
            position = first
            while position < end:
                batches = memoryview(calls.batches(part.acquisition, part.held.log, position))
                if not len(batches):
                    break
                position = next_offset(batches)
                seen = list(visible_batches(Fetched(batches, 0, end, end, ()), end))
                yield from decode_batches(seen, first=first, end=end, with_headers=with_headers, decoder=decoder)
