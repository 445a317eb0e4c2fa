"""Avro, each value one datum of a given schema, without a container around it."""

from __future__ import annotations

import functools
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from mainstem.pipelines.errors import InvalidOption, SchemaMismatch
from mainstem.pipelines.value_formats.contract import Decoded
from mainstem.pipelines.value_formats.misfits import corrupt_column

PRIMITIVES: dict[str, DataType] = {
    "null": NullType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
LOGICAL: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "uuid": StringType(),
}
PLAIN_LOGICAL = ("time-millis", "time-micros", "duration")
"""Spark has no type for a time of day: it stays the number that it is stored as."""


class AvroFormat:
    """Records, or any other Avro type."""

    has_corrupt = True

    def __init__(self, schema: str) -> None:
        self._schema = schema
        try:
            parsed = fastavro.parse_schema(json.loads(schema), expand=True)
        except (ValueError, TypeError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as fact:
            raise InvalidOption(f"Option `value.schema` is no Avro schema: {fact}.") from None
        self.type: DataType = spark_type(parsed, ())

    def decode(self, values: pa.Array) -> Decoded:
        """Fastavro reads one datum at a time: there is no other way to know where the next field begins."""
        schema = _parsed(self._schema)
        rows: list[Any] = []
        misfits: list[int] = []
        for index, value in enumerate(values.to_pylist()):
            if value is None:
                rows.append(None)
                continue
            stream = io.BytesIO(value)
            try:
                rows.append(fastavro.schemaless_reader(stream, schema, None))
                is_whole = stream.tell() == len(value)
            except Exception:  # noqa: BLE001 fastavro raises whatever its reading of wrong bytes meets
                is_whole = False
                if len(rows) == index:
                    rows.append(None)
            if not is_whole:
                rows[index] = None
                misfits.append(index)
        return pa.array(plain_value(rows), to_arrow_type(self.type, timezone="UTC")), corrupt_column(values, misfits)


@functools.cache
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


def plain_value(value: Any) -> Any:
    """UUIDs as text; everything else Arrow takes as it is."""
    match value:
        case dict():
            return {name: plain_value(item) for name, item in value.items()}
        case list():
            return [plain_value(item) for item in value]
        case _ if type(value).__name__ == "UUID":
            return str(value)
        case _:
            return value


def spark_type(schema: Any, within: tuple[str, ...]) -> DataType:
    """The Spark type of a parsed Avro schema."""
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return PRIMITIVES[schema]
        raise SchemaMismatch(f"The Avro type `{schema}` contains itself, which no Spark type can.")
    if isinstance(schema, list):
        return _union(schema, within)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in LOGICAL:
        return LOGICAL[logical]
    match kind:
        case "record" | "error":
            name = schema["name"]
            if name in within:
                raise SchemaMismatch(f"The Avro record `{name}` contains itself, which no Spark type can.")
            fields = [StructField(one["name"], spark_type(one["type"], (*within, name))) for one in schema["fields"]]
            return StructType(fields)
        case "array":
            return ArrayType(spark_type(schema["items"], within))
        case "map":
            return MapType(StringType(), spark_type(schema["values"], within))
        case _:
            return spark_type(kind, within)


def _union(branches: list[Any], within: tuple[str, ...]) -> DataType:
    kinds = [spark_type(branch, within) for branch in branches if branch != "null"]
    if not kinds:
        return NullType()
    if len(set(map(DataType.simpleString, kinds))) == 1:
        return kinds[0]
    names = {kind.simpleString() for kind in kinds}
    if names <= {"int", "bigint"}:
        return LongType()
    if names <= {"float", "double"}:
        return DoubleType()
    raise SchemaMismatch(f"An Avro union of {' and '.join(sorted(names))} has no Spark type: read the value as raw.")
