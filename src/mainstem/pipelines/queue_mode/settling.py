"""What becomes of acquired rows: accepted with their batch, unless a row says otherwise.

A row that says so has its receipt and a verdict, `retry` or `reject`. The sink takes such rows out of what it writes, and settles
with its commit; `mainstem.spark.settle` sends them alone, from within foreachBatch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructType

from mainstem.model.errors import MainstemError
from mainstem.pipelines.errors import PipelineError, SchemaMismatch, plain_errors
from mainstem.pipelines.options import Options
from mainstem.pipelines.spark_version import check_spark_version
from mainstem.sdk.acquisitions import RELEASED, UNKNOWN, Acquisitions, SettlementEntry
from mainstem.sdk.http_api import ApiRefused
from mainstem.sdk.stages import http_address

if TYPE_CHECKING:
    import pyarrow as pa

ACQUISITION, SUBSCRIPTION, ADDRESS = "@acquisition", "@subscription", "@http"
"""Names in a position of Spark's that is an acquisition."""
RECEIPT, VERDICT, REASON, DELAY_MS = "_receipt", "_verdict", "_reason", "_retryAfterMs"
COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    RECEIPT: (StringType,),
    VERDICT: (StringType,),
    REASON: (StringType,),
    DELAY_MS: (LongType, IntegerType),
}
WORDS = ("accept", "retry", "reject")
SETTLE, SINK_ID, HTTP_ADDRESS = "settle", "sinkId", "httpAddress"
REASON_CHARACTERS_MAX = 1_000
BODY_TOO_LARGE = "body-too-large"
TOO_MANY = (
    "More verdicts than the broker takes in one request: acquire fewer rows at a time (maxRowsPerTrigger), or raise "
    "http.body_bytes_max."
)
TIMEOUT_S = 5.0

logger = logging.getLogger(__name__)


class AcquisitionLost(PipelineError):
    """What a batch was to read is not its any more."""


def check_settling(schema: StructType) -> None:
    """Whether the columns that settle are of their types, and have what they need. Raises SchemaMismatch."""
    names = schema.fieldNames()
    for field in schema:
        kinds = COLUMNS.get(field.name)
        if kinds is not None and not isinstance(field.dataType, kinds):
            wanted = " or ".join(kind.typeName() for kind in kinds)
            raise SchemaMismatch(f"Column `{field.name}` is {field.dataType.simpleString()}; it must be {wanted}.")
    if VERDICT in names and RECEIPT not in names:
        raise SchemaMismatch(f"Column `{VERDICT}` needs `{RECEIPT}` beside it, as the source gave it.")
    for name in (REASON, DELAY_MS):
        if name in names and VERDICT not in names:
            raise SchemaMismatch(f"Column `{name}` means nothing without `{VERDICT}`.")


class Verdicts:
    """Gathered from the rows of one task."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, int, str, int, str], list[int]] = {}

    def take(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Notes verdicts, and passes on what has none."""
        import pyarrow.compute as pc

        for batch in batches:
            if VERDICT not in batch.schema.names:
                yield batch
                continue
            words = batch.column(batch.schema.get_field_index(VERDICT))
            is_passed = pc.fill_null(pc.equal(words, "accept"), True)
            passed = batch.filter(is_passed)
            if passed.num_rows < batch.num_rows:
                self._note(batch.filter(pc.invert(is_passed)))
            if passed.num_rows:
                yield passed

    def _note(self, rows: pa.RecordBatch) -> None:
        columns = {name: rows.column(name).to_pylist() for name in COLUMNS if name in rows.schema.names}
        nothing = [None] * rows.num_rows
        said = zip(
            columns[RECEIPT],
            columns[VERDICT],
            columns.get(DELAY_MS, nothing),
            columns.get(REASON, nothing),
            strict=True,
        )
        for receipt, word, delay_ms, reason in said:
            if word not in WORDS:
                raise SchemaMismatch(f"A row has the verdict {word!r}; it can be {', '.join(WORDS)}, or null.")
            if (delay_ms or 0) < 0 or (delay_ms and word != "retry"):
                raise SchemaMismatch(
                    f"A row has `{DELAY_MS}` {delay_ms} with the verdict {word!r}: it is for retry, from 0 on."
                )
            acquisition, log, offset = _parse(receipt)
            key = acquisition, log, word, delay_ms or 0, (reason or "")[:REASON_CHARACTERS_MAX]
            self._offsets.setdefault(key, []).append(offset)

    def all(self) -> list[SettlementEntry]:
        """What was noted."""
        return [
            SettlementEntry(acquisition, log, sorted(offsets), word, delay_ms, reason)
            for (acquisition, log, word, delay_ms, reason), offsets in self._offsets.items()
        ]


def _parse(receipt: str | None) -> tuple[str, int, int]:
    try:
        acquisition, log, offset = (receipt or "").split(":")
        return acquisition, int(log), int(offset)
    except ValueError:
        raise SchemaMismatch(
            f"A row has a verdict and the receipt {receipt!r}, which is none: keep `{RECEIPT}` as the source gave it."
        ) from None


class Ruled(WriterCommitMessage):
    """What one task has noted."""

    def __init__(self, verdicts: Sequence[SettlementEntry]) -> None:
        self.verdicts = verdicts


def settle_writer(given: Mapping[str, str], schema: StructType) -> DataSourceArrowWriter:
    """Sends verdicts, and nothing else."""
    with plain_errors():
        check_spark_version()
        options = Options(given, (SETTLE, SINK_ID, HTTP_ADDRESS))
        check_settling(schema)
        if VERDICT not in schema.fieldNames():
            raise SchemaMismatch(f"What is settled needs the columns `{RECEIPT}` and `{VERDICT}`.")
        return SettleWriter(options)


class SettleWriter(DataSourceArrowWriter):
    """Verdicts of a part of a batch; they count when the batch is settled."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Ruled:
        """On an executor: one task. Rows without a verdict are accepted, as all others."""
        with plain_errors():
            verdicts = Verdicts()
            for _ in verdicts.take(iterator):
                pass
            return Ruled(verdicts.all())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver: tell the broker, in place of what the same write said of this batch before."""
        by_acquisition: dict[str, list[SettlementEntry]] = {}
        for verdict in verdicts_in(messages):
            by_acquisition.setdefault(verdict.acquisition, []).append(verdict)
        with plain_errors():
            address = self._options.text(HTTP_ADDRESS)
            if address is None:
                with self._options.client() as client:
                    address = http_address(client)
            calls = Acquisitions(address, timeout_s=self._options.timeout_s)
            for name, verdicts in by_acquisition.items():
                with explained():
                    calls.rule(name, self._options.text(SINK_ID) or SETTLE, verdicts)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing was told."""


def verdicts_in(messages: Iterable[WriterCommitMessage | None]) -> list[SettlementEntry]:
    """Of all tasks."""
    return [verdict for message in messages for verdict in getattr(message, "verdicts", ())]


class explained:  # noqa: N801 - used as a verb
    """Around calls that settle: what the broker refuses, as a sentence that says what to do."""

    def __enter__(self) -> None:
        """Nothing yet."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        problem = getattr(error, "problem", "")
        if problem in (UNKNOWN, RELEASED):
            raise AcquisitionLost(
                f"What this batch has read is not its any more ({getattr(error, 'detail', '')}): nothing was written or settled. "
                "Start the query again; it says how to go on."
            ) from None
        if problem == BODY_TOO_LARGE:
            raise PipelineError(TOO_MANY) from None


def settle_quietly(position: Mapping[str, Any] | str) -> None:
    """Settle the acquisition at a position of Spark's: all before it is done. What goes wrong here is tried again later."""
    try:
        plain = json.loads(position) if isinstance(position, str) else position
    except ValueError:
        return
    if not isinstance(plain, Mapping) or not plain.get(ACQUISITION):
        return
    try:
        Acquisitions(str(plain[ADDRESS]), timeout_s=TIMEOUT_S).settle(str(plain[ACQUISITION]))
    except ApiRefused as refusal:
        if refusal.problem != UNKNOWN:  # else the query has gone on
            logger.warning("Acquisition %s is not settled: %s", plain[ACQUISITION], refusal)
    except MainstemError as error:
        logger.warning("Acquisition %s is not settled yet: %s", plain[ACQUISITION], error)
