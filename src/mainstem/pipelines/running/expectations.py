"""Rules that rows keep, and what becomes of those that do not.

A row keeps a rule when it is true: null breaks it. What breaks a rule is counted where the rows are, with one of them for
people to look at. Dead letters carry the facts of every other dead letter (docs/queues.md), and pipeline and rule in words.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, StringType

from mainstem.model.header_names import DEAD_HEADER, ORIGIN_HEADER, PIPELINE_HEADER, RULE_HEADER
from mainstem.pipelines.definition.pipeline import Action, Expectation

if TYPE_CHECKING:
    import pyarrow as pa

OBSERVED = "rule:"
"""What the name of a measurement begins with."""
REASON = "rejected"
NAMESPACE = "default"
LETTER_SCHEMA = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def _holds(rule: Expectation) -> Column:
    return F.coalesce(F.expr(rule.rule.text).cast("boolean"), F.lit(False))


def _row(frame: DataFrame) -> Column:
    """A row for people."""
    columns = []
    for field in frame.schema:
        column = F.col(f"`{field.name}`")
        columns.append(column.cast("string").alias(field.name) if isinstance(field.dataType, BinaryType) else column)
    return F.to_json(F.struct(*columns))


def observed(frame: DataFrame, rule: Expectation, observation: Observation | None = None) -> DataFrame:
    """With a count of what breaks the rule, and one such row; in a batch run to be asked of `observation`."""
    is_broken = ~_holds(rule)
    # The largest and not the first: a measurement must not depend on the order of rows.
    return frame.observe(
        observation or OBSERVED + rule.name,
        F.count(F.when(is_broken, F.lit(1))).alias("rows"),
        F.max(F.when(is_broken, F.substring(_row(frame), 1, 1000))).alias("example"),
    )


def apply_expectation(frame: DataFrame, rule: Expectation) -> DataFrame:
    """The rows that go on; raises for one that breaks a rule whose action is to fail."""
    match rule.action:
        case Action.WARN:
            return frame
        case Action.FAIL:
            message = F.concat(F.lit(f"{rule.place}: rule {rule.name} is broken by the row "), _row(frame))
            return frame.filter(F.when(_holds(rule), F.lit(True)).otherwise(F.raise_error(message).cast("boolean")))
        case _:
            return frame.filter(_holds(rule))


def broken(frame: DataFrame, rule: Expectation) -> DataFrame:
    """The rows that break the rule."""
    return frame.filter(~_holds(rule))


def letters(frame: DataFrame, rule: Expectation, pipeline: str) -> DataFrame:
    """Rows that break a rule, as dead letters.

    The value is that of the record as far as the frame still has it, else the whole row as JSON.
    """
    has = set(frame.columns)
    facts = frame.select(
        _binary(frame, "key") if "key" in has else F.lit(None).cast("binary").alias("key"),
        _value(frame).alias("value"),
        _column(frame, "headers", "array<struct<key:string,value:binary>>"),
        _column(frame, "topic", "string"),
        _column(frame, "partition", "int"),
        _column(frame, "offset", "bigint"),
        (F.unix_millis("timestamp") if _is_time(frame) else F.lit(-1)).cast("bigint").alias("time"),
    )
    return facts.mapInArrow(_Addressing(pipeline, rule.name, rule.rule.text), LETTER_SCHEMA)


def _is_time(frame: DataFrame) -> bool:
    return "timestamp" in frame.columns and frame.schema["timestamp"].dataType.simpleString() == "timestamp"


def _binary(frame: DataFrame, name: str) -> Column:
    kind = frame.schema[name].dataType
    column = F.col(name)
    return (column if isinstance(kind, StringType | BinaryType) else column.cast("string")).cast("binary").alias(name)


def _value(frame: DataFrame) -> Column:
    if "value" in frame.columns and isinstance(frame.schema["value"].dataType, StringType | BinaryType):
        return F.col("value").cast("binary")
    if "value" in frame.columns and "_corrupt" in frame.columns:
        # as it came, where it could not be read; else as it was understood
        return F.coalesce(F.col("_corrupt").cast("binary"), F.to_json("value").cast("binary"))
    return _row(frame).cast("binary")


def _column(frame: DataFrame, name: str, kind: str) -> Column:
    if name in frame.columns and frame.schema[name].dataType.simpleString() == kind:
        return F.col(name)
    return F.lit(None).cast(kind).alias(name)


class _Addressing:
    """Runs on executors: writes the facts of a death as every part of the system reads them."""

    def __init__(self, pipeline: str, rule: str, text: str) -> None:
        self._pipeline = pipeline
        self._rule = rule
        self._text = text

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        kind = pa.schema(
            [
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ]
        )
        for batch in batches:
            now_ms = time.time_ns() // 1_000_000
            rows = [self._letter(row, now_ms) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, kind)

    def _letter(self, row: dict[str, Any], now_ms: int) -> dict[str, Any]:
        encode = msgspec.json.encode
        origin = {
            "reason": REASON,
            "namespace": NAMESPACE,
            "queue": self._pipeline,
            "topic": row["topic"],
            "partition": -1 if row["partition"] is None else row["partition"],
            "offset": -1 if row["offset"] is None else row["offset"],
            "timestamp_ms": -1 if row["time"] is None else row["time"],
            "died_ms": now_ms,
            "deliveries": 1,
            "failures": 0,
            "error": f"rule {self._rule}: {self._text}",
        }
        death = {
            "queue": self._pipeline,
            "reason": REASON,
            "count": 1,
            "first_ms": now_ms,
            "last_ms": now_ms,
            "exchange": "",
            "routing_keys": [row["topic"] or self._pipeline],
        }
        added = {
            ORIGIN_HEADER: encode(origin),
            DEAD_HEADER: encode([death]),
            PIPELINE_HEADER: self._pipeline.encode(),
            RULE_HEADER: self._rule.encode(),
        }
        headers = [header for header in row["headers"] or [] if header["key"] not in added]
        headers += [{"key": name, "value": value} for name, value in added.items()]
        return {"key": row["key"], "value": row["value"], "headers": headers}
