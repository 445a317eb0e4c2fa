"""Where rows go: one class for each kind of sink.

    open_sink(sink, context)     an OpenSink
    OpenSink.start(frame)        of a stream: the query, with a checkpoint of its own
    OpenSink.write(frame)        of a batch run: all of it, and back when it is done

Every sink is a query of its own (docs/decisions/0009). A kind that only knows how to write one micro-batch, the same however
often it is asked under the same number, derives from MicroBatchSink. A new kind is a class here or elsewhere, and its line in
KINDS.
"""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import BinaryType, StringType

from mainstem.pipelines.definition.pipeline import Mode, Sink
from mainstem.pipelines.running.context import RunContext
from mainstem.pipelines.running.error_messages import errors_at
from mainstem.pipelines.tables.delta import append_to_delta
from mainstem.pipelines.tables.sink import append_batch

RECORD = frozenset(
    {"key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "deliverAt"}
)
"""The columns of a record: rows that have no others are written as they are."""
SETTLING = ("_receipt", "_verdict", "_reason", "_retryAfterMs")
"""What a row of a queue says of itself: for the sink, and no part of what is written."""


class OpenSink:
    """A sink of one run."""

    def __init__(self, sink: Sink, context: RunContext) -> None:
        self.sink = sink
        self.context = context

    def start(self, frame: DataFrame) -> StreamingQuery:
        """Begin a query that writes what comes."""
        writer = (
            self.shaped(frame)
            .writeStream.queryName(f"{self.context.pipeline.name}.{self.sink.name}")
            .outputMode(self.sink.output)
            .option("checkpointLocation", self.context.checkpoint_of(self.sink.name))
        )
        if self.context.mode is Mode.AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=self.context.pipeline.settings.trigger)
        return self.aimed(writer).start()

    def write(self, frame: DataFrame) -> None:
        """Write a frame whole."""
        raise NotImplementedError

    def shaped(self, frame: DataFrame) -> DataFrame:
        """With the columns that are written."""
        return frame

    def aimed(self, writer: DataStreamWriter) -> DataStreamWriter:
        """With its format and place."""
        raise NotImplementedError


class MicroBatchSink(OpenSink):
    """One that writes micro-batches by itself."""

    def aimed(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Each micro-batch by `write_batch`."""
        return writer.foreachBatch(self.write_batch)

    def write_batch(self, frame: DataFrame, number: int) -> None:
        """Write one, the same however often it is asked under this number."""
        raise NotImplementedError

    def run_query(self) -> str:
        """Under which a batch run's one batch counts: two sinks of it may write to one place."""
        return f"{self.context.run_id or uuid.uuid4().hex}.{self.sink.name}"


class TopicSink(OpenSink):
    """Records of a topic, exactly once."""

    def _options(self) -> dict[str, str]:
        options = {
            **self.sink.options,
            **self.context.sink_options(),
            "topic": self.sink.target,
            "sinkId": self.sink.name,
        }
        if self.sink.output != "append" and any(one.kind == "queue" for one in self.context.pipeline.sources.values()):
            options["settles"] = "true"
        return options

    def shaped(self, frame: DataFrame) -> DataFrame:
        """As records."""
        with errors_at(self.sink.place):
            return record_rows(frame, self.sink)

    def aimed(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Spark lets a Python sink append only: other outputs are written batch by batch, under the same fence."""
        if self.sink.output == "append":
            return writer.format("mainstem").options(**self._options())
        return writer.foreachBatch(self._write_batch)

    def _write_batch(self, frame: DataFrame, number: int) -> None:
        frame.write.format("mainstem").mode("append").options(**self._options()).save()

    def write(self, frame: DataFrame) -> None:
        """Published whole; the run's id keeps a repetition from being published again."""
        options = self._options()
        if self.context.run_id:
            options["writeId"] = f"{self.context.run_id}.{self.sink.name}"
        self.shaped(frame).write.format("mainstem").mode("append").options(**options).save()


class ParquetSink(OpenSink):
    """Files in a directory, by Spark's own sink: exactly once for readers that heed its log, as Spark's do."""

    def aimed(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Appended."""
        writer = writer.format("parquet").options(compression="zstd", **self.sink.options)
        if self.sink.partition_by:
            writer = writer.partitionBy(*self.sink.partition_by)
        return writer.option("path", self.context.path(self.sink.target))

    def write(self, frame: DataFrame) -> None:
        """As the sink's `mode` says."""
        writer = frame.write.format("parquet").mode(self.sink.mode).options(compression="zstd", **self.sink.options)
        if self.sink.partition_by:
            writer = writer.partitionBy(*self.sink.partition_by)
        writer.save(self.context.path(self.sink.target))


class ConsoleSink(MicroBatchSink):
    """For a look at the rows; printed by the driver."""

    def write_batch(self, frame: DataFrame, number: int) -> None:
        """Nothing is said of a batch without rows."""
        rows_max = int(self.sink.target)
        rows = frame.limit(rows_max + 1).collect()
        if not rows:
            return
        shown = frame.sparkSession.createDataFrame(rows[:rows_max], frame.schema)
        more = " and more" if len(rows) > rows_max else ""
        _say(f"{self.sink.name}, batch {number}: {min(len(rows), rows_max)} rows{more}")
        shown.show(rows_max, truncate=60)

    def write(self, frame: DataFrame) -> None:
        """The first rows."""
        self.write_batch(frame, 0)


class TableSink(MicroBatchSink):
    """A table as topics have them: Parquet whose small files are merged, each batch once."""

    def write_batch(self, frame: DataFrame, number: int) -> None:
        """Fenced by the query and its batch's number, in the table's manifest."""
        append_batch(frame, self.context.path(self.sink.target), number)

    def write(self, frame: DataFrame) -> None:
        """Fenced by the run."""
        append_batch(frame, self.context.path(self.sink.target), 0, query=self.run_query())


class DeltaSink(MicroBatchSink):
    """A table of Delta Lake, each batch once."""

    def write_batch(self, frame: DataFrame, number: int) -> None:
        """Fenced by the query and its batch's number, in the table's log."""
        by = self.sink.partition_by
        append_to_delta(frame, self.context.path(self.sink.target), number, partition_by=by)

    def write(self, frame: DataFrame) -> None:
        """Fenced by the run."""
        by = self.sink.partition_by
        append_to_delta(frame, self.context.path(self.sink.target), 0, query=self.run_query(), partition_by=by)


KINDS: dict[str, type[OpenSink]] = {
    "topic": TopicSink,
    "parquet": ParquetSink,
    "table": TableSink,
    "delta": DeltaSink,
    "console": ConsoleSink,
}


def open_sink(sink: Sink, context: RunContext) -> OpenSink:
    """The sink of this kind."""
    return KINDS[sink.kind](sink, context)


def record_rows(frame: DataFrame, sink: Sink) -> DataFrame:
    """Rows as records: what the sink says of single columns, else the row's own, else the whole row as JSON."""
    settling = [name for name in SETTLING if name in frame.columns] if "_verdict" in frame.columns else []
    plain = [name for name in frame.columns if name not in (*SETTLING, "_deliveries")]
    has = set(plain)
    is_record = has <= RECORD and "value" in has and isinstance(frame.schema["value"].dataType, StringType | BinaryType)
    chosen: dict[str, Any] = {}
    for name, text in sink.columns.items():
        with errors_at(text.place):
            # analysed here, where its line is known
            chosen[name] = frame.select(F.expr(text.text).alias(name)) and F.expr(text.text)
    if {name.lower(): value for name, value in sink.options.items()}.get("value.format") == "registry":
        chosen.setdefault("value", F.struct(*[F.col(f"`{name}`") for name in plain]))
        return frame.select(*[column.alias(name) for name, column in chosen.items()], *settling)
    if "value" not in chosen and not is_record:
        chosen["value"] = F.to_json(F.struct(*[F.col(f"`{name}`") for name in plain]))
    if is_record:
        kept = [name for name in [*plain, *settling] if name not in chosen]
        return frame.select(*kept, *[column.alias(name) for name, column in chosen.items()])
    return frame.select(*[_as_field(frame, column, name) for name, column in chosen.items()], *settling)


def _as_field(frame: DataFrame, column: Any, name: str) -> Any:
    """Keys and values that are numbers or times are written as text."""
    if name not in ("key", "value"):
        return column.alias(name)
    kind = frame.select(column.alias(name)).schema[0].dataType
    return (column if isinstance(kind, StringType | BinaryType) else column.cast("string")).alias(name)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is what a console sink is for
