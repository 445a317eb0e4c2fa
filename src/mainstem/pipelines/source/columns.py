"""The columns of a read: those of Spark's Kafka source, so that a job changes one word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mainstem.pipelines.codec.batch_decoding import Columns
from mainstem.pipelines.errors import SchemaMismatch
from mainstem.pipelines.source.offset_range import OffsetRange
from mainstem.pipelines.value_formats import ValueFormat

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
CORRUPT = "_corrupt"
MS_IN_US = 1000

ARROW_TIMESTAMP = pa.timestamp("us", tz="UTC")


def schema_of(value_type: DataType, *, with_headers: bool, with_corrupt: bool) -> StructType:
    """All columns of a read with these options."""
    types: dict[str, DataType] = {**TYPES, "value": value_type}
    if not with_headers:
        del types["headers"]
    if with_corrupt:
        types[CORRUPT] = BinaryType()
    return StructType([StructField(name, kind) for name, kind in types.items()])


def check_schema(schema: StructType, full: StructType) -> None:
    """A schema that the user gave may leave out columns, and nothing else."""
    known = {field.name: field.dataType for field in full}
    for field in schema:
        if field.name not in known:
            raise SchemaMismatch(
                f"The source has no column `{field.name}`; its columns are {', '.join(known)}"
                + (" (and headers, with includeHeaders)." if "headers" not in known else ".")
            )
        if _bare(field.dataType) != _bare(known[field.name]):
            raise SchemaMismatch(
                f"Column `{field.name}` is {known[field.name].simpleString()}, not {field.dataType.simpleString()}: "
                "leave the schema out, or cast the column after the read."
            )


def record_batch(
    columns: Columns, source: OffsetRange, schema: StructType, value_format: ValueFormat, arrow_schema: pa.Schema
) -> pa.RecordBatch:
    """The columns that the schema names, in its order."""
    names = schema.fieldNames()
    count = len(columns.offsets)
    values, corrupt = value_format.decode(columns.values) if {"value", CORRUPT} & set(names) else (None, None)
    arrays = []
    for name, field in zip(names, arrow_schema, strict=True):
        match name:
            case "key":
                arrays.append(columns.keys)
            case "value":
                arrays.append(values)
            case "topic":
                arrays.append(pa.repeat(pa.scalar(source.topic, pa.string()), count))
            case "partition":
                arrays.append(pa.repeat(pa.scalar(source.partition, pa.int32()), count))
            case "offset":
                arrays.append(pa.array(columns.offsets))
            case "timestamp":
                arrays.append(pa.array(columns.timestamps_ms * MS_IN_US).cast(ARROW_TIMESTAMP))
            case "timestampType":
                arrays.append(pa.array(columns.timestamp_types.astype(np.int32)))
            case "headers":
                arrays.append(columns.headers)
            case _:
                arrays.append(pa.nulls(count, pa.binary()) if corrupt is None else corrupt)
        if arrays[-1].type != field.type:
            arrays[-1] = arrays[-1].cast(field.type)
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema)


def _bare(kind: DataType) -> str:
    return kind.simpleString().lower()


def wanted_names(schema: StructType) -> Sequence[str]:
    """Columns that are asked for."""
    names: list[str] = schema.fieldNames()
    return names
