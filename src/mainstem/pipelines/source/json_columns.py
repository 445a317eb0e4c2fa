"""The columns of a JSON read: with the schema that was given, or one sampled from the topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from mainstem.pipelines.errors import InvalidOption
from mainstem.pipelines.source.columns import schema_of
from mainstem.pipelines.source.log_reading import LogReader
from mainstem.pipelines.source.offset_range import OffsetRange
from mainstem.pipelines.source.options import START_OF_BATCHES, SourceOptions
from mainstem.pipelines.source.starting_point import resolve
from mainstem.sdk.operations import EARLIEST, LATEST

SAMPLE_RECORDS_MAX = 1_000
"""Per partition."""


def json_columns(options: SourceOptions) -> StructType | str:
    """A schema in Spark's DDL is handed on as text, because only Spark's JVM can parse it."""
    given = options.text("value.schema")
    if given is None:
        return schema_of(sampled_type(sampled_values(options)), with_headers=options.with_headers, with_corrupt=True)
    if given.lstrip().startswith("{"):
        try:
            kind = StructType.fromJson(json.loads(given))
        except (ValueError, KeyError, TypeError):
            raise InvalidOption(
                "Option `value.schema` is neither DDL, like `id BIGINT, name STRING`, nor the JSON of a StructType."
            ) from None
        return schema_of(kind, with_headers=options.with_headers, with_corrupt=True)
    fixed = schema_of(NullType(), with_headers=options.with_headers, with_corrupt=True)
    parts = [
        f"`{field.name}` STRUCT<{given}>"
        if field.name == "value"
        else f"`{field.name}` {field.dataType.simpleString()}"
        for field in fixed
    ]
    return ", ".join(parts)


def sampled_type(values: Iterable[bytes]) -> StructType:
    """What the objects among the values have in common."""
    kind: DataType = NullType()
    for value in values:
        try:
            parsed = json.loads(value)
        except ValueError:
            continue
        if isinstance(parsed, dict):
            kind = merged_type(kind, type_of(parsed))
    if not isinstance(kind, StructType):
        raise InvalidOption(
            "No JSON object was found to take a schema from: give one with the option `value.schema`, "
            "as in `id BIGINT, name STRING`."
        )
    return StructType([StructField(field.name, _settled(field.dataType)) for field in kind])


def sampled_values(options: SourceOptions) -> Iterator[bytes]:
    """Some values of each partition."""
    with options.client() as client:
        wanted = options.partitions(client)
        starting = options.starting(START_OF_BATCHES)
        # a stream that starts at its end has nothing to sample there: what is older says how it looks
        starts = (
            client.offsets(dict.fromkeys(wanted, EARLIEST))
            if starting.is_at(LATEST)
            else resolve(client, starting, wanted, is_end=False)
        )
        ends = client.offsets(dict.fromkeys(wanted, LATEST))
        reader = LogReader(client, with_headers=False, decoder="numpy", is_loss_an_error=False)
        for at in wanted:
            left = SAMPLE_RECORDS_MAX
            for columns in reader.read(OffsetRange(at.topic, at.partition, starts[at], ends[at])):
                values = columns.values.slice(0, left).to_pylist()
                left -= len(values)
                yield from (value for value in values if value is not None)
                if left <= 0:
                    client.close()  # a fetch may be under way, which nobody will read
                    break


def type_of(value: Any) -> DataType:
    """Of one parsed value."""
    match value:
        case bool():
            return BooleanType()
        case int():
            return LongType() if -(1 << 63) <= value < 1 << 63 else DoubleType()
        case float():
            return DoubleType()
        case str():
            return StringType()
        case list():
            return ArrayType(_merged(type_of(item) for item in value))
        case dict():
            return StructType([StructField(name, type_of(item)) for name, item in value.items()])
        case _:
            return NullType()


def merged_type(first: DataType, second: DataType) -> DataType:
    """What holds both; of two that cannot be one, the first: the other will be a misfit."""
    match first, second:
        case (NullType(), _):
            return second
        case (_, NullType()):
            return first
        case (LongType(), DoubleType()) | (DoubleType(), LongType()):
            return DoubleType()
        case (ArrayType(), ArrayType()):
            return ArrayType(merged_type(first.elementType, second.elementType))
        case (StructType(), StructType()):
            kinds = {field.name: field.dataType for field in first}
            for field in second:
                known = kinds.get(field.name)
                kinds[field.name] = field.dataType if known is None else merged_type(known, field.dataType)
            return StructType([StructField(name, kind) for name, kind in kinds.items()])
        case _:
            return first


def _merged(kinds: Iterable[DataType]) -> DataType:
    merged: DataType = NullType()
    for kind in kinds:
        merged = merged_type(merged, kind)
    return merged


def _settled(kind: Any) -> Any:
    """Where only null was seen, text is the guess, as Spark's."""
    match kind:
        case NullType():
            return StringType()
        case ArrayType():
            return ArrayType(_settled(kind.elementType))
        case StructType():
            return StructType([StructField(field.name, _settled(field.dataType)) for field in kind])
        case _:
            return kind
