"""A streaming read of topics.

Lives in a process of its own beside the driver for as long as the query, except for `read`, which runs on executors. Spark's
checkpoint alone says where a query is; the group that is reported is for people to look at.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mainstem.model.errors import MainstemError
from mainstem.pipelines.errors import DataLost, plain_errors
from mainstem.pipelines.source.log_reading import LOST
from mainstem.pipelines.source.offset_range import OffsetRange, split_ranges
from mainstem.pipelines.source.options import START_OF_STREAMS, SourceOptions
from mainstem.pipelines.source.progress import ProgressReporter
from mainstem.pipelines.source.rate_limit import limit_bytes, limit_rows
from mainstem.pipelines.source.source import TopicScan, kept_starts
from mainstem.pipelines.source.starting_point import resolve
from mainstem.pipelines.source.stream_offsets import StreamOffsets
from mainstem.pipelines.spark_version import check_spark_version
from mainstem.sdk.client import Client
from mainstem.sdk.operations import LATEST, TopicPartition

FIRST_OFFSET = 0
"""Where a partition that appeared while the query ran is begun."""


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is new in each partition."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._refusal: MainstemError | None = None
        try:
            check_spark_version()
            self._options = SourceOptions(given)
            self._options.refuse_ending()
            self._scan = TopicScan(self._options, schema)
        except MainstemError as refusal:
            # Spark loses the error of a reader that cannot be made, so the first call tells it
            self._refusal = refusal
        self._client: Client | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._just_seen: dict[TopicPartition, int] | None = None
        """Where partitions ended when the micro-batch that is being planned was asked for."""
        self._reporter = ProgressReporter()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_reporter": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins. Spark asks more than once, so nothing is stored."""
        with plain_errors():
            client = self._connected()
            wanted = self._options.partitions(client)
            starts = resolve(client, self._options.starting(START_OF_STREAMS), wanted, is_end=False)
            return self._position(starts, self._options.group or self._new_group()).plain()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark takes one; with two limits given, the other one is kept all the same."""
        if self._refusal is not None:
            return ReadAllAvailable()
        if self._options.rows_max is not None:
            return ReadMaxRows(self._options.rows_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on nothing newer is there."""
        with plain_errors():
            self._target = self._ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends."""
        with plain_errors():
            client = self._connected()
            begun = StreamOffsets.parse(start)
            begun = begun._replace(group=self._options.group or begun.group, address=self._options.address)
            # all before the start is done: this is the one place that an idle query still comes to
            self._reporter.report(client, begun)
            if self._target is None:
                ends = self._ends()
                self._just_seen = dict(ends)
            else:
                ends = dict(self._target)
            starts = self._starts(begun.offsets, ends)
            # a log that was made anew may end before we began, which is found when it is planned
            ends = {at: max(end, starts[at]) for at, end in ends.items()}
            if not isinstance(limit, ReadAllAvailable):
                ends = self._limited(starts, ends)
            return self._position(ends, begun.group).plain()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Shown in the query's progress, beside how far it is. Asked for right behind `latestOffset`, which knows it."""
        with plain_errors():
            ends, self._just_seen = self._just_seen or self._ends(), None
            return self._position(ends, self._options.group or "").plain()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of one micro-batch: the same whenever it is run again."""
        with plain_errors():
            ends = StreamOffsets.parse(end).offsets
            starts = self._starts(StreamOffsets.parse(start).offsets, ends)
            starts, ends = self._still_there(starts, ends)
            ranges = [OffsetRange(at.topic, at.partition, starts[at], ends[at]) for at in sorted(ends)]
            return split_ranges(ranges, self._options.partitions_min)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task, on an executor."""
        assert isinstance(partition, OffsetRange)
        return self._scan.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark calls this late, and for the last micro-batch never."""
        self._reporter.report(self._connected(), StreamOffsets.parse(end)._replace(address=self._options.address))

    def stop(self) -> None:
        """Spark does not call this reliably; the broker drops the connection with the process."""
        if self._client is not None:
            self._client.close()

    def _connected(self) -> Client:
        if self._refusal is not None:
            raise self._refusal
        if self._client is None:
            self._client = self._options.client()
        return self._client

    def _new_group(self) -> str:
        what = (self._options.text(self._options.selection) or "").split(",")[0]
        name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in what)[:64]
        return f"spark-{name}-{secrets.token_hex(4)}"

    def _position(self, offsets: Mapping[TopicPartition, int], group: str) -> StreamOffsets:
        return StreamOffsets(offsets, group, self._options.address)

    def _ends(self) -> dict[TopicPartition, int]:
        client = self._connected()
        return client.offsets(dict.fromkeys(self._options.partitions(client), LATEST))

    def _starts(
        self, begun: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        lost = [at for at in begun if at not in ends]
        if lost and self._options.is_loss_an_error:
            raise DataLost(f"{lost[0].topic}-{lost[0].partition} was read before and is not there any more. {LOST}")
        return {at: begun.get(at, FIRST_OFFSET) for at in ends}

    def _limited(
        self, starts: Mapping[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if self._options.rows_max is not None:
            ends = limit_rows(starts, ends, self._options.rows_max)
        if self._options.bytes_max is not None:
            ends = limit_bytes(self._connected(), starts, ends, self._options.bytes_max)
        return ends

    def _still_there(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        client = self._connected()
        now = set(self._options.partitions(client))
        lost = sorted(set(ends) - now)
        if lost and self._options.is_loss_an_error:
            raise DataLost(f"{lost[0].topic}-{lost[0].partition} was read before and is not there any more. {LOST}")
        ends = {at: end for at, end in ends.items() if at in now}
        starts = {at: start for at, start in starts.items() if at in now}
        return kept_starts(client, starts, ends, self._options.is_loss_an_error), ends
