"""Values that are written with a schema of the registry: structs become Avro, behind the schema's id.

The schema is the newest of the subject when the write is planned: what a topic's readers expect is registered by people, not
taken from whatever a query selects.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

import fastavro
import pyarrow as pa

from mainstem.pipelines.errors import SchemaMismatch
from mainstem.wire.schemas.framing import MAGIC


def written_values(batches: Iterable[pa.RecordBatch], number: int, schema: str) -> Iterator[pa.RecordBatch]:
    """The same batches, their values encoded. Raises SchemaMismatch for a row that the schema does not take."""
    parsed = fastavro.parse_schema(json.loads(schema))
    frame = bytes([MAGIC]) + number.to_bytes(4, "big")
    for batch in batches:
        at = batch.schema.get_field_index("value")
        values = [None if row is None else _encoded(row, frame, parsed) for row in batch.column(at).to_pylist()]
        yield batch.set_column(at, "value", pa.array(values, pa.binary()))


def _encoded(row: Any, frame: bytes, schema: Any) -> bytes:
    out = io.BytesIO(frame)
    out.seek(len(frame))
    try:
        fastavro.schemaless_writer(out, schema, row, strict_allow_default=True)
    except Exception as fact:  # noqa: BLE001 fastavro raises whatever its writing of wrong values meets
        raise SchemaMismatch(f"A value does not fit the registered schema: {fact}.") from None
    return out.getvalue()
