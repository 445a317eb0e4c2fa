"""Writing rows to topics: all of a batch, or nothing; each batch of a query once.

    write      a task stages its rows under (query, sink, batch, task, attempt), and answers where its stage ends
    commit     the driver publishes the stages of the tasks that count, together with the number of the batch: one call
    abort      the driver drops what the tasks have staged; what it cannot drop expires

Whatever is killed between these steps, the broker knows which batch was published last: a batch that Spark runs again under
the same number is not published again. Nothing is kept in the writers between the calls: Spark makes them anew.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mainstem.model.errors import MainstemError
from mainstem.model.staging import SinkKey, StageKey
from mainstem.pipelines.errors import InvalidOption, PipelineError, plain_errors
from mainstem.pipelines.options import Options
from mainstem.pipelines.queue_mode.settling import VERDICT, Verdicts, explained, verdicts_in
from mainstem.pipelines.sink.columns import check_columns
from mainstem.pipelines.source.progress import report_batch
from mainstem.pipelines.spark_version import check_spark_version
from mainstem.pipelines.task_identity import batch_of
from mainstem.pipelines.task_memory import task_memory
from mainstem.sdk.acquisitions import SettlementEntry
from mainstem.sdk.stages import (
    StageEnd,
    StageRefused,
    StageWriter,
    abort_stages,
    commit_stages,
    http_address,
)
from mainstem.wire.compression import Compression

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC, SINK_ID, COMPRESSION, HTTP_ADDRESS, SETTLES = "topic", "sinkId", "compression", "httpAddress", "settles"
WRITE_ID = "writeId"
"""Of a write of a table: under the same one it is published once, however often it is tried."""
FORMAT, SUBJECT = "value.format", "value.schema"
FORMATS = ("bytes", "registry")
KNOWN = (TOPIC, SINK_ID, COMPRESSION, HTTP_ADDRESS, SETTLES, WRITE_ID, FORMAT, SUBJECT)
CODECS = {codec.name.lower(): codec for codec in Compression}
SINGLE_BATCH = 0
STALE_BATCH = "stale-batch"


class SinkOptions:
    """What a sink was told. Picklable."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        check_spark_version()
        self.options = Options(given, KNOWN)
        self.topic = self.options.text(TOPIC)
        self.sink = self.options.text(SINK_ID) or ""
        self.write_id = self.options.text(WRITE_ID)
        self.compression = CODECS[self.options.choice(COMPRESSION, CODECS, "none")]
        self.checkpoint = self.options.text("checkpointLocation")
        self.has_verdicts = VERDICT in schema.fieldNames()
        self.registered: tuple[int, str] | None = None
        """The id and the Avro schema of values that are written with one."""
        has_schema = self.options.choice(FORMAT, FORMATS, FORMATS[0]) == "registry"
        if self.options.text(SUBJECT) is not None and not has_schema:
            raise InvalidOption(f"Option `{SUBJECT}` has no meaning without {FORMAT} registry.")
        check_columns(schema, self.topic, values=StructType if has_schema else None)
        if has_schema:
            self.registered = self._find_schema()

    def http_address(self) -> str:
        """Where commits go: as configured, or as the broker advertises it."""
        address = self.options.text(HTTP_ADDRESS)
        if address is not None:
            return address.removeprefix("http://").rstrip("/")
        with self.options.client() as client:
            return http_address(client)

    def _find_schema(self) -> tuple[int, str]:
        from mainstem.pipelines.value_formats.registered_schemas import newest_avro

        subject = self.options.text(SUBJECT) or (f"{self.topic}-value" if self.topic else None)
        if subject is None:
            raise InvalidOption(
                f"Option `{SUBJECT}`, the subject, is needed with {FORMAT} registry and a column `topic`."
            )
        return newest_avro(self.http_address(), subject)

    def settles(self, default: bool) -> bool:
        """Whether the commit settles what the batch has acquired."""
        return self.options.flag(SETTLES, default)


class Staged(WriterCommitMessage):
    """What a task has staged. A task without rows has staged nothing: its stage ends at 0."""

    def __init__(self, key: StageKey, end: int, verdicts: Sequence[SettlementEntry] = ()) -> None:
        self.key = key
        self.end = end
        self.verdicts = verdicts


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """All rows or none."""
    with plain_errors():
        if overwrite:
            raise InvalidOption("A topic cannot be overwritten: use mode `append`, or delete the topic first.")
        sink_options = SinkOptions(options, schema)
        if sink_options.has_verdicts and not sink_options.settles(False):
            raise InvalidOption(
                f"Column `{VERDICT}` is for a write that settles what its batch has acquired: set the option `{SETTLES}` to "
                "true in the last write of foreachBatch, or send the verdicts by mainstem.spark.settle."
            )
        return TopicWriter(
            sink_options, sink_options.write_id or f"write-{uuid.uuid4()}", lasting=sink_options.write_id is not None
        )


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Exactly once."""
    with plain_errors():
        sink_options = SinkOptions(options, schema)
        if sink_options.write_id is not None:
            raise InvalidOption(f"Option `{WRITE_ID}` has no meaning for a stream: its batches have numbers.")
        return TopicStreamWriter(sink_options)


class TopicWriter(DataSourceArrowWriter):
    """One write of a table. Inside foreachBatch it is a part of that batch, and is as exact as a stream."""

    def __init__(self, sink_options: SinkOptions, name: str, *, lasting: bool = False) -> None:
        self._sink_options = sink_options
        self._name = name
        self._lasting = lasting

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """On an executor: one task."""
        context = _task()
        of = batch_of(context)
        if of is None:
            return _stage(self._sink_options, self._name, SINGLE_BATCH, context, iterator)
        with plain_errors():
            if not self._sink_options.sink:
                raise InvalidOption(
                    f"A write inside foreachBatch needs the option `{SINK_ID}`: a name that no other write of this query "
                    "has, by which the broker knows what it has published already."
                )
        return _stage(self._sink_options, of.query, of.batch, context, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver: publish."""
        staged = _of_one_batch(messages)
        lasting = self._lasting or (bool(staged) and staged[0].key.query != self._name)
        key = staged[0].key if staged else StageKey(self._name, self._sink_options.sink, SINGLE_BATCH, 0, "-")
        _commit(
            self._sink_options,
            key.sink_key,
            key.batch,
            staged,
            lasting=lasting,
            settles=self._sink_options.settles(False),
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver: drop what was staged, if that is possible."""
        staged = _of_one_batch(messages)
        key = staged[0].key if staged else StageKey(self._name, self._sink_options.sink, SINGLE_BATCH, 0, "-")
        _abort(self._sink_options, key.sink_key, key.batch, is_final=key.query == self._name and not self._lasting)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """The batches of a streaming query."""

    def __init__(self, sink_options: SinkOptions) -> None:
        self._sink_options = sink_options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """On an executor: one task of a batch."""
        context = _task()
        of = batch_of(context)
        assert of is not None, "Spark tells its tasks which query they belong to"
        return _stage(self._sink_options, of.query, of.batch, context, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: publish the batch together with its number."""
        staged = _of_one_batch(messages)
        if not staged:
            return  # without a task there is nothing to publish, and nothing that could be published twice
        assert staged[0].key.batch == batchId, "tasks of another batch"
        _commit(
            self._sink_options,
            staged[0].key.sink_key,
            batchId,
            staged,
            lasting=True,
            settles=self._sink_options.settles(True),
        )
        report_batch(self._sink_options.checkpoint, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: drop what was staged, if that is possible; the next commit drops the rest."""
        for message in _of_one_batch(messages)[:1]:
            _abort(self._sink_options, message.key.sink_key, batchId, is_final=False)


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark writes in tasks"
    return context


def _stage(
    sink_options: SinkOptions, query: str, batch: int, context: TaskContext, iterator: Iterator[pa.RecordBatch]
) -> Staged:
    # numpy and Arrow are for those who write, not for those who commit
    from mainstem.pipelines.sink.staged_rows import StagedRows

    task = context.partitionId()
    # Spark counts attempts from 0 again after a restart; a stage of before must not be continued.
    attempt = f"{context.attemptNumber()}-{uuid.uuid4().hex[:16]}"
    key = StageKey(query, sink_options.sink, batch, task, attempt)
    # Questions about topics are asked while batches are on their way: each on a connection of its own.
    with (
        plain_errors(),
        task_memory(),
        sink_options.options.client() as asking,
        sink_options.options.client() as writing,
    ):
        writer = StageWriter(writing, key, timeout_s=sink_options.options.timeout_s)
        rows = StagedRows(asking, writer, sink_options.topic, sink_options.compression, task)
        verdicts = Verdicts()
        taken: Iterable[pa.RecordBatch] = verdicts.take(iterator) if sink_options.has_verdicts else iterator
        if sink_options.registered is not None:
            from mainstem.pipelines.sink.registered_values import written_values

            taken = written_values(taken, *sink_options.registered)
        rows.write_all(taken)
    return Staged(key, rows.position, verdicts.all())


def _of_one_batch(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    staged = [message for message in messages if isinstance(message, Staged)]
    assert len({(message.key.query, message.key.batch) for message in staged}) <= 1, "one batch at a time"
    return staged


def _ends(staged: Sequence[Staged]) -> list[StageEnd]:
    return [StageEnd(message.key.task, message.key.attempt, message.end) for message in staged if message.end]


def _commit(
    sink_options: SinkOptions, sink: SinkKey, batch: int, staged: Sequence[Staged], *, lasting: bool, settles: bool
) -> None:
    with plain_errors(), explained():
        address, timeout_s = sink_options.http_address(), sink_options.options.timeout_s
        verdicts = verdicts_in(staged)
        try:
            commit_stages(
                address,
                sink,
                batch,
                _ends(staged),
                lasting=lasting,
                timeout_s=timeout_s,
                settles=settles,
                verdicts=verdicts,
            )
        except StageRefused as refusal:
            if refusal.problem != STALE_BATCH:
                raise
            where = (
                f"The checkpoint {sink_options.checkpoint}"
                if sink_options.checkpoint
                else f"The checkpoint of query {sink.query}"
            )
            raise PipelineError(
                f"{where} was rewound: {refusal.detail}. What it would write again is in the topic already, so nothing "
                "was written. Go on with the checkpoint as it was, or begin a new one in an empty directory, which reads "
                "and writes all over again from its starting offsets."
            ) from None


def _abort(sink_options: SinkOptions, sink: SinkKey, batch: int, *, is_final: bool) -> None:
    with contextlib.suppress(MainstemError):  # they expire
        abort_stages(
            sink_options.http_address(), sink, batch, is_final=is_final, timeout_s=sink_options.options.timeout_s
        )
