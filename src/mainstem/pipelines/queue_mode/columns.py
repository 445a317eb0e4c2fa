"""The columns of a read in queue mode: those of the source, a receipt for each row, and how often it was delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from mainstem.pipelines.codec.batch_decoding import Columns
from mainstem.pipelines.codec.record_positions import Integers
from mainstem.pipelines.errors import SchemaMismatch, plain_errors
from mainstem.pipelines.queue_mode.options import QueueOptions
from mainstem.pipelines.source.source import source_schema

RECEIPT, DELIVERIES = "_receipt", "_deliveries"
ADDED = {RECEIPT: StringType(), DELIVERIES: IntegerType()}
SEPARATOR = ":"


def queue_schema(given: Mapping[str, str]) -> StructType | str:
    """The columns of a read; as text where Spark has to parse what the user wrote."""
    with plain_errors():
        options = QueueOptions(given)
        found = source_schema(options.plain)
        if isinstance(found, str):
            return f"{found}, {RECEIPT} STRING, {DELIVERIES} INT"
        return StructType([*found.fields, *(StructField(name, kind) for name, kind in ADDED.items())])


def without_added(schema: StructType) -> StructType:
    """What the source reads. Raises SchemaMismatch for an added column of another type."""
    for field in schema:
        if field.name in ADDED and field.dataType != ADDED[field.name]:
            raise SchemaMismatch(
                f"Column `{field.name}` is {ADDED[field.name].simpleString()}, not {field.dataType.simpleString()}."
            )
    return StructType([field for field in schema if field.name not in ADDED])


class HeldOffsets:
    """Stretches of one log, and how often each was delivered: told of many offsets at once."""

    def __init__(self, stretches: Sequence[tuple[int, int, int]]) -> None:
        table = np.array(stretches, np.int64).reshape(-1, 3)
        self._firsts, self._lasts, self._deliveries = table[:, 0], table[:, 1], table[:, 2]

    def select(self, columns: Columns) -> tuple[Columns, Integers]:
        """The rows that are held, with their deliveries."""
        at = np.searchsorted(self._lasts, columns.offsets)
        known = at < len(self._lasts)
        at = np.where(known, at, 0)
        held = known & (self._firsts[at] <= columns.offsets)
        if held.all():
            return columns, self._deliveries[at]
        mask = pa.array(held)
        selected = Columns(
            columns.offsets[held],
            columns.timestamps_ms[held],
            columns.timestamp_types[held],
            columns.keys.filter(mask),
            columns.values.filter(mask),
            None if columns.headers is None else columns.headers.filter(mask),
        )
        return selected, self._deliveries[at[held]]


def with_added(
    batch: pa.RecordBatch, schema: pa.Schema, prefix: str, offsets: Integers, deliveries: Integers
) -> pa.RecordBatch:
    """The rows, with a receipt each and their deliveries, in the order of the schema."""
    arrays = []
    for field in schema:
        if field.name == RECEIPT:
            arrays.append(pc.binary_join_element_wise(prefix, pa.array(offsets).cast(pa.string()), SEPARATOR))
        elif field.name == DELIVERIES:
            arrays.append(pa.array(deliveries.astype(np.int32)))
        else:
            arrays.append(batch.column(field.name))
        if arrays[-1].type != field.type:
            arrays[-1] = arrays[-1].cast(field.type)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
