"""The columns that a sink takes, and from Arrow batches of them to rows that can be encoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from mainstem.model.scheduling import DUE_MS_MAX
from mainstem.pipelines.codec.batch_encoding import Rows
from mainstem.pipelines.codec.partitioner import Integers
from mainstem.pipelines.codec.record_join import AVAILABLE
from mainstem.pipelines.errors import SchemaMismatch
from mainstem.pipelines.queue_mode.settling import COLUMNS as SETTLING
from mainstem.pipelines.queue_mode.settling import check_settling

DELIVER_AT = "deliverAt"
TEXT = (StringType, BinaryType)
TAKEN: dict[str, tuple[type[DataType], ...]] = {
    "key": TEXT,
    "value": TEXT,
    "topic": (StringType,),
    "partition": (IntegerType, LongType, ShortType),
    "timestamp": (TimestampType, LongType),
    "headers": (ArrayType,),
    DELIVER_AT: (TimestampType, LongType),
}
LEFT_OUT = frozenset({"offset", "timestampType", "_deliveries"})
"""Columns of our own source that mean nothing in a write: so what was read can be written as it is."""
MS_IN_US = 1_000
NO_TIMESTAMP = -1
LARGE_BINARY = pa.large_binary()


def check_columns(schema: StructType, topic: str | None, values: type[DataType] | None = None) -> None:
    """Whether rows of this schema can be written; `values` is in place of the usual types of a value. Raises SchemaMismatch."""
    for field in schema:
        if field.name in LEFT_OUT or field.name in SETTLING:
            continue
        kinds = (values,) if values is not None and field.name == "value" else TAKEN.get(field.name)
        if kinds is None:
            raise SchemaMismatch(
                f"The sink has no column `{field.name}`; it takes {', '.join(TAKEN)}: drop it, or put it into the value, "
                "as with to_json(struct(*))."
            )
        if not isinstance(field.dataType, kinds) or (field.name == "headers" and not _are_headers(field.dataType)):
            wanted = "array<struct<key:string,value:binary>>" if field.name == "headers" else _names(kinds)
            raise SchemaMismatch(
                f"Column `{field.name}` is {field.dataType.simpleString()}; the sink takes {wanted}: cast it"
                + (", or use to_json." if field.name == "value" else ".")
            )
    check_settling(schema)
    if "value" not in schema.fieldNames():
        raise SchemaMismatch("The sink needs a column `value`, of string or binary.")
    if topic is None and "topic" not in schema.fieldNames():
        raise SchemaMismatch("Where to write is not said: give the option `topic`, or a column `topic`.")


def _names(kinds: Sequence[type[DataType]]) -> str:
    return " or ".join(kind.typeName() for kind in kinds)


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType}
    return (
        fields.keys() == {"key", "value"}
        and isinstance(fields["key"], StringType)
        and isinstance(fields["value"], TEXT)
    )


def take_rows(table: pa.Table, order: Integers, now_ms: int, due_ms: Integers | None = None) -> Rows:
    """Rows in another order, ready to be encoded. Raises SchemaMismatch for a header without a name.

    Those that have no timestamp are of now, or have none yet if they are published later.
    """
    columns = {
        name: _one(table, name) for name in ("key", "value", "timestamp", "headers") if name in table.column_names
    }
    in_order = _is_in_order(order)
    # Keys and values are the bulk: where records are joined by us, they are found at their places then.
    places = order if AVAILABLE and not in_order else None
    left = () if places is None else ("key", "value")
    taken = {
        name: column if in_order or name in left else column.take(pa.array(order)) for name, column in columns.items()
    }
    value = taken["value"].cast(LARGE_BINARY)
    key = taken["key"].cast(LARGE_BINARY) if "key" in taken else pa.nulls(len(order), LARGE_BINARY)
    headers = taken.get("headers")
    if headers is not None:
        entries = headers.flatten()
        if entries.null_count or entries.field("key").null_count:
            raise SchemaMismatch("A header without a key cannot be written: every header needs one.")
        if pa.types.is_large_list(headers.type):
            headers = headers.cast(pa.list_(headers.type.value_type))
    if due_ms is None:
        return Rows(key, value, _times(taken.get("timestamp"), len(order), now_ms), headers, None, places)
    return Rows(key, value, _times(taken.get("timestamp"), len(order), NO_TIMESTAMP), headers, due_ms[order], places)


def given_partitions(table: pa.Table) -> Integers | None:
    """The partitions that rows ask for, -1 where they leave it open; None if no row asks."""
    if "partition" not in table.column_names:
        return None
    column = _one(table, "partition")
    if column.null_count == len(column):
        return None
    found: Integers = pc.fill_null(column.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    if column.null_count == 0 and int(found.min()) >= 0:
        return found
    asked = ~pc.is_null(column).to_numpy(zero_copy_only=False)
    if int(found[asked].min(initial=0)) < 0:
        raise SchemaMismatch(f"A row asks for partition {int(found[asked].min())}: partitions begin at 0.")
    return found


def due_times(table: pa.Table) -> Integers | None:
    """When rows are to be published, in ms, never too early by a part of one; 0 where it is at once. None: no row says it.

    Raises SchemaMismatch.
    """
    if DELIVER_AT not in table.column_names:
        return None
    column = _one(table, DELIVER_AT)
    if column.null_count == len(column):
        return None
    unit = 1
    if pa.types.is_timestamp(column.type):
        column, unit = column.cast(pa.timestamp("us", tz=column.type.tz)), MS_IN_US
    due: Integers = -(-pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) // unit)
    if int(due.max()) > DUE_MS_MAX:
        raise SchemaMismatch(
            f"A row has {int(due.max())} in column `{DELIVER_AT}`, which is no time that can be kept: give a timestamp, or "
            "milliseconds since 1970."
        )
    return due


def _one(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _is_in_order(order: Integers) -> bool:
    return bool(np.array_equal(order, np.arange(len(order))))


def _times(column: pa.Array | None, count: int, now_ms: int) -> Integers:
    """In milliseconds; now, where there is none."""
    if column is None:
        return np.full(count, now_ms, np.int64)
    unit = 1
    if pa.types.is_timestamp(column.type):
        column, unit = column.cast(pa.timestamp("us", tz=column.type.tz)), MS_IN_US
    filled = pc.fill_null(column.cast(pa.int64()), now_ms * unit)
    times: Integers = filled.to_numpy(zero_copy_only=False) // unit
    return times
