"""`option("history", "table")`: the plain source with a topic's table in front of its log.

Tasks read the files by Arrow and hand them to Spark, which cannot prune columns here; `mainstem.spark.table` has Spark read them
itself. What is read is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructType

from mainstem.pipelines.errors import InvalidOption, SchemaMismatch, plain_errors
from mainstem.pipelines.source.columns import CORRUPT
from mainstem.pipelines.source.offset_range import OffsetRange, split_ranges
from mainstem.pipelines.source.options import SourceOptions
from mainstem.pipelines.source.source import TopicScan, source_schema
from mainstem.pipelines.tables import columns
from mainstem.pipelines.tables.facts import FORMAT, SCHEMA, TableFacts, table_facts
from mainstem.pipelines.tables.manifest import Manifest, TableFile
from mainstem.pipelines.tables.reading import pinned_manifest, tail_starts
from mainstem.pipelines.tables.store import TableStore
from mainstem.sdk.client import Client
from mainstem.sdk.operations import EARLIEST, LATEST

TASK_BYTES = 64 << 20
"""Files that one task reads."""
BATCH_ROWS = 64 << 10
PLACES = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp",
          "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "assign")  # fmt: skip


class FileGroup(InputPartition):
    """Some files of one table."""

    def __init__(self, topic: str, location: str, schema: str, files: Sequence[TableFile]) -> None:
        self.topic = topic
        self.location = location
        self.schema = schema
        self.files = tuple(files)


def history_schema(given: Mapping[str, str]) -> StructType | str:
    """The columns; values as the topic says, unless the reader says otherwise."""
    with plain_errors():
        return source_schema(_completed(given))


class HistoryReader(DataSourceReader):
    """Files first, then what the log has beyond them."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        with plain_errors():
            options = SourceOptions(_completed(given))
            options.refuse_limits()
            for name in PLACES:
                if options.text(name) is not None:
                    raise InvalidOption(
                        f"Option `{name}` does not go with history `{options.history}`: filter the columns instead."
                    )
            self._scan = TopicScan(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Pins the manifests, and fixes where the log is read from and to."""
        options = self._scan.options
        groups: list[FileGroup] = []
        ranges: list[OffsetRange] = []
        with plain_errors(), options.client() as client:
            for topic in dict.fromkeys(at.topic for at in options.partitions(client)):
                facts = table_facts(client, topic)
                manifest = pinned_manifest(client, facts)
                kept = client.offsets(dict.fromkeys(facts.partitions, EARLIEST))
                ends = client.offsets(dict.fromkeys(facts.partitions, LATEST))
                starts = kept
                if manifest is not None:
                    self._check_values(facts, manifest)
                    starts = tail_starts(facts.partitions, manifest, kept, ends, options.is_loss_an_error)
                    groups += _groups(facts, manifest)
                ranges += [OffsetRange(topic, at.partition, starts[at], ends[at]) for at in facts.partitions]
        return [*groups, *split_ranges(ranges, options.partitions_min)] or [OffsetRange("", 0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task, on an executor."""
        if isinstance(partition, OffsetRange):
            yield from self._scan.read(partition)
            return
        assert isinstance(partition, FileGroup)
        with plain_errors():
            yield from self._read_files(partition)

    def _read_files(self, group: FileGroup) -> Iterator[pa.RecordBatch]:
        wanted = self._scan.schema.fieldNames()
        is_raw = has_raw_values(group.schema)
        store = TableStore(group.location)
        for file in group.files:
            with store.read_data(file.path) as stream:
                parquet = pq.ParquetFile(stream)
                present = [name for name in parquet.schema_arrow.names if name in wanted or name == "value"]
                for batch in parquet.iter_batches(BATCH_ROWS, columns=present):
                    yield self._shaped(batch, group.topic, is_raw)

    def _shaped(self, batch: pa.RecordBatch, topic: str, is_raw: bool) -> pa.RecordBatch:
        schema = to_arrow_schema(self._scan.schema, timezone="UTC")
        found = {name: batch.column(name) for name in batch.schema.names}
        found[columns.TOPIC] = pa.repeat(pa.scalar(topic, pa.string()), batch.num_rows)
        if is_raw and {"value", CORRUPT} & set(schema.names):
            found["value"], corrupt = self._scan.value_format.decode(found["value"])
            found[CORRUPT] = pa.nulls(batch.num_rows, pa.binary()) if corrupt is None else corrupt
        arrays = [
            found[field.name].cast(field.type) if field.name in found else pa.nulls(batch.num_rows, field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _check_values(self, facts: TableFacts, manifest: Manifest) -> None:
        stored = columns.parse_schema(manifest.schema)["value"].dataType
        wanted = self._scan.value_format.type
        if not isinstance(stored, BinaryType) and stored.simpleString() != wanted.simpleString():
            raise SchemaMismatch(
                f"The table of {facts.topic!r} has {stored.simpleString()} in `value`, not {wanted.simpleString()}: leave "
                "value.format out, or read the log alone."
            )


def has_raw_values(schema: str) -> bool:
    """Whether the values of a table were stored as they came."""
    return isinstance(columns.parse_schema(schema)["value"].dataType, BinaryType)


def _groups(facts: TableFacts, manifest: Manifest) -> list[FileGroup]:
    groups: list[list[TableFile]] = []
    size = TASK_BYTES
    for file in manifest.files:
        if size >= TASK_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.bytes
    return [FileGroup(facts.topic, facts.location, manifest.schema, files) for files in groups]


def _completed(given: Mapping[str, str]) -> dict[str, str]:
    """With the format of the topic, where one topic is read and nothing else is said; of JSON, as its table has it."""
    options = {name.lower(): value for name, value in given.items()}
    topic = options.get("topic") or options.get("path")
    if FORMAT in options or topic is None:
        return dict(given)
    with _client(given) as client:
        facts = table_facts(client, topic)
        manifest = pinned_manifest(client, facts)
    options |= facts.value_options
    if manifest is not None and facts.value_options.get(FORMAT) == "json":
        kind = columns.parse_schema(manifest.schema)["value"].dataType
        assert isinstance(kind, StructType)
        options[SCHEMA] = columns.schema_text(kind)
    return options


def _client(given: Mapping[str, str]) -> Client:
    return SourceOptions(given).client()
