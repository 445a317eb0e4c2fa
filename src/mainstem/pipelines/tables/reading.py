"""A topic as one frame: what its table has, read by Spark's own reader, and the rest from the log.

The manifest is pinned first, and the log is read from where it ends: so a row is in one of the two and in one only, whatever the
writer does meanwhile. The frame is the topic as of now, however often it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from mainstem.pipelines.errors import DataLost, PipelineError
from mainstem.pipelines.options import ADDRESS_DEFAULT
from mainstem.pipelines.tables import columns
from mainstem.pipelines.tables.facts import FORMAT, GROUP, SCHEMA, TableFacts, table_facts
from mainstem.pipelines.tables.manifest import Manifest
from mainstem.pipelines.tables.store import TableStore
from mainstem.sdk.client import Client
from mainstem.sdk.operations import EARLIEST, LATEST, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableMissing(PipelineError):
    """There is none at this place."""


DAY_OF_TIMESTAMP = (
    "CASE WHEN timestamp >= TIMESTAMP '0001-01-01 00:00:00Z' AND timestamp < TIMESTAMP '9999-12-31 00:00:00Z' "
    "THEN date_from_unix_date(CAST(floor(unix_seconds(timestamp) / 86400) AS INT)) END"
)
"""In UTC, whatever the session's time zone is; as files have it."""


def read_topic(spark: SparkSession, topic: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """All of the topic, as of now. `options` are the source's: its address, how values are decoded if the topic is silent."""
    given = {"address": ADDRESS_DEFAULT, **{name.lower(): value for name, value in (options or {}).items()}}
    fails_on_loss = given.get("failondataloss", "true").lower() != "false"
    with Client(given["address"], client_id="mainstem-spark") as client:
        facts = table_facts(client, topic)
        manifest = pinned_manifest(client, facts)
        kept = client.offsets(dict.fromkeys(facts.partitions, EARLIEST))
        ends = client.offsets(dict.fromkeys(facts.partitions, LATEST))
    starts = kept if manifest is None else tail_starts(facts.partitions, manifest, kept, ends, fails_on_loss)
    rest = {at: (starts[at], ends[at]) for at in facts.partitions if starts[at] < ends[at]}
    if manifest is None:
        return _shown(_read_log(spark, given | _decoded(given, facts), facts, rest))
    history = _read_files(spark, TableStore(facts.location), manifest)
    schema = columns.parse_schema(manifest.schema)
    if not rest:
        return _shown(history.withColumn(columns.TOPIC, lit(topic)), schema)
    read_options = given | facts.value_options
    if facts.value_options.get(FORMAT) == "json":
        read_options[SCHEMA] = columns.schema_text(_struct(schema))
    tail = _shown(_read_log(spark, read_options, facts, rest), schema)
    return _shown(history.withColumn(columns.TOPIC, lit(topic)), schema).unionByName(tail, allowMissingColumns=True)


def read_current(spark: SparkSession, topic: str, options: Mapping[str, str]) -> DataFrame:
    """All of the topic as of each time that the frame is read: by a query, in each of its micro-batches."""
    read_options = {"includeHeaders": "true", **options, "topic": topic, "history": "current"}
    frame = spark.read.format("mainstem").options(**read_options).load()
    return _shown(frame.selectExpr("*", f"{DAY_OF_TIMESTAMP} AS {columns.DAY}"))


def read_table(spark: SparkSession, location: str) -> DataFrame:
    """What a pipeline has written there. Raises TableMissing."""
    store = TableStore(location)
    manifest = store.latest()
    if manifest is None:
        raise TableMissing(f"There is no table at {location}: correct the path, or let its pipeline write to it first.")
    return _read_files(spark, store, manifest)


def pinned_manifest(client: Client, facts: TableFacts) -> Manifest | None:
    """The topic's table as it is now; None if it has none yet. Raises TableMissing for one that is not to be seen from here."""
    if not facts.is_table:
        return None
    manifest = TableStore(facts.location).latest()
    if manifest is None and any(client.committed(GROUP + facts.topic, facts.partitions).values()):
        raise TableMissing(
            f"The table of {facts.topic!r} is not seen from here, at {facts.location}: set table.location of the topic to a "
            "place that its writer and all readers share, or read where it is."
        )
    return manifest


def tail_starts(
    partitions: Iterable[TopicPartition],
    manifest: Manifest,
    kept: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    fails_on_loss: bool,
) -> dict[TopicPartition, int]:
    """From where the log is read behind a table. Raises DataLost."""
    starts = {at: manifest.ends.get(at.partition, kept[at]) for at in partitions}
    for at, start in starts.items():
        if start < kept[at] and start < ends[at] and fails_on_loss:
            raise DataLost(
                f"Offsets {start} to {kept[at]} of {at.topic}-{at.partition} are gone from the log, and the table did not have "
                "them yet: set failOnDataLoss to false to go on with what is there; a longer retention.ms, or a worker "
                "that runs (mainstem pipeline worker), keeps it from happening again."
            )
    return {at: max(start, kept[at]) for at, start in starts.items()}


def _decoded(given: Mapping[str, str], facts: TableFacts) -> dict[str, str]:
    """As the topic says, unless the reader says otherwise."""
    return {} if FORMAT in given else facts.value_options


def _read_log(
    spark: SparkSession,
    options: Mapping[str, str],
    facts: TableFacts,
    rest: Mapping[TopicPartition, tuple[int, int]],
) -> DataFrame:
    # without anything to read, the last partition from its end to its end: the columns are wanted all the same
    partitions = sorted(rest) or facts.partitions[-1:]
    bounds = [
        json.dumps({facts.topic: {str(at.partition): rest.get(at, (0, 0))[side] for at in partitions}})
        for side in (0, 1)
    ]
    read_options = {
        "includeHeaders": "true",
        **options,
        "assign": json.dumps({facts.topic: [at.partition for at in partitions]}),
        "startingOffsets": bounds[0],
        "endingOffsets": bounds[1],
    }
    return (
        spark.read.format("mainstem")
        .options(**read_options)
        .load()
        .selectExpr("*", f"{DAY_OF_TIMESTAMP} AS {columns.DAY}")
    )


def _read_files(spark: SparkSession, store: TableStore, manifest: Manifest) -> DataFrame:
    schema = columns.parse_schema(manifest.schema)
    if not manifest.files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("basePath", store.spark_path())
    return reader.parquet(*(store.spark_path(file.path) for file in manifest.files))


def _shown(frame: DataFrame, schema: StructType | None = None) -> DataFrame:
    """In the order of the source's columns, the day last."""
    names = frame.columns if schema is None else [*schema.fieldNames(), columns.TOPIC]
    first = [name for name in ("key", "value", columns.TOPIC) if name in names]
    rest = [name for name in names if name not in first and name != columns.DAY]
    return frame.select(*first, *rest, columns.DAY)


def _struct(schema: StructType) -> StructType:
    kind = schema["value"].dataType
    assert isinstance(kind, StructType)
    return kind
