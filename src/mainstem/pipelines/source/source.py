"""A batch read of topics, and what batch and stream have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.pipelines.errors import DataLost, InvalidOption, plain_errors
from mainstem.pipelines.source.columns import CORRUPT, check_schema, record_batch, schema_of
from mainstem.pipelines.source.log_reading import LOST, LogReader
from mainstem.pipelines.source.offset_range import OffsetRange, split_ranges
from mainstem.pipelines.source.options import START_OF_BATCHES, SourceOptions
from mainstem.pipelines.source.starting_point import resolve
from mainstem.pipelines.source.value_format import chosen_format
from mainstem.pipelines.spark_version import check_spark_version
from mainstem.pipelines.task_memory import task_memory
from mainstem.sdk.client import Client
from mainstem.sdk.operations import EARLIEST, LATEST, TopicPartition


def source_schema(given: Mapping[str, str]) -> StructType | str:
    """The columns of a read; as text where Spark has to parse what the user wrote."""
    with plain_errors():
        check_spark_version()
        options = SourceOptions(given)
        if options.format == "json":
            from mainstem.pipelines.source.json_columns import json_columns

            return json_columns(options)
        value_format = chosen_format(options, None)
        return schema_of(value_format.type, with_headers=options.with_headers, with_corrupt=value_format.has_corrupt)


class TopicScan:
    """Turns ranges of offsets into Arrow. Pickled to executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.value_format = chosen_format(options, schema)
        full = schema_of(
            self.value_format.type, with_headers=options.with_headers, with_corrupt=self.value_format.has_corrupt
        )
        check_schema(schema, full)

    def read(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Runs in a task, on an executor."""
        arrow_schema = to_arrow_schema(self.schema, timezone="UTC")
        with plain_errors(), task_memory(), self.options.client() as client:
            reader = LogReader(
                client,
                with_headers="headers" in self.schema.fieldNames(),
                decoder=self.options.chosen_decoder(),
                is_loss_an_error=self.options.is_loss_an_error,
            )
            for columns in reader.read(wanted):
                yield record_batch(columns, wanted, self.schema, self.value_format, arrow_schema)

    @property
    def has_corrupt(self) -> bool:
        """Whether the read asks for what did not fit."""
        return CORRUPT in self.schema.fieldNames()


class TopicReader(DataSourceReader):
    """Reads a range of each partition."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        with plain_errors():
            check_spark_version()
            options = SourceOptions(given)
            options.refuse_limits()
            if options.starting(START_OF_BATCHES).is_at(LATEST):
                raise InvalidOption("A batch read cannot start at latest: there would be nothing to read.")
            if options.ending().is_at(EARLIEST):
                raise InvalidOption("A batch read cannot end at earliest: there would be nothing to read.")
            self._scan = TopicScan(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Fixes the range of each partition: from now on the read is the same however often it runs."""
        options = self._scan.options
        with plain_errors(), options.client() as client:
            wanted = options.partitions(client)
            starts = resolve(client, options.starting(START_OF_BATCHES), wanted, is_end=False)
            ends = resolve(client, options.ending(), wanted, is_end=True)
            starts = kept_starts(client, starts, ends, options.is_loss_an_error)
            ranges = [OffsetRange(at.topic, at.partition, starts[at], ends[at]) for at in wanted]
            # without any range Spark would ask for one called None
            return split_ranges(ranges, options.partitions_min) or [OffsetRange("", 0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task, on an executor."""
        assert isinstance(partition, OffsetRange)
        return self._scan.read(partition)


def kept_starts(
    client: Client,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    is_loss_an_error: bool,
) -> dict[TopicPartition, int]:
    """The starts, moved to what is still kept where that is allowed."""
    kept = client.offsets(dict.fromkeys(starts, EARLIEST))
    for at, start in starts.items():
        if start < kept[at] and start < ends[at] and is_loss_an_error:
            raise DataLost(f"Offsets {start} to {kept[at]} of {at.topic}-{at.partition} are gone. {LOST}")
    return {at: max(start, kept[at]) for at, start in starts.items()}
