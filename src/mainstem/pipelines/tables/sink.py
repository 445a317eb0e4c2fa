"""Rows of a streaming query into a table of their own, each batch once.

For `foreachBatch`. The number of a batch stands in the manifest that names its files, beside the query it is of: a batch
that Spark runs again is found to be there, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.functions import col, lit
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from mainstem.pipelines.errors import InvalidOption, PipelineError, SchemaMismatch
from mainstem.pipelines.tables import columns
from mainstem.pipelines.tables.files import TIMESTAMP, TableFiles
from mainstem.pipelines.tables.housekeeping import Times, tidy_table
from mainstem.pipelines.tables.manifest import Manifest, TableFile
from mainstem.pipelines.tables.store import TableStore
from mainstem.pipelines.tables.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

QUERY_PROPERTY = "sql.streaming.queryId"
FACTS = "path STRING, rows BIGINT, bytes BIGINT, day STRING, last_ms BIGINT, written_ms BIGINT, layout INT"


class StaleBatch(PipelineError):
    """A later batch of the query is in the table: its checkpoint was set back."""


def append_batch(
    frame: DataFrame, location: str, number: int, *, query: str | None = None, times: Times | None = None
) -> bool:
    """Write a micro-batch; answers whether it was this call, or one before it.

    Without `query`, the name under which the number counts, this must run inside `foreachBatch`.
    """
    query = query or query_of(frame)
    store = TableStore(location)
    manifest = store.latest() or Manifest(0, "")
    if is_there(manifest.fences.get(query), number, location):
        return False
    schema, layout = _layout(manifest, frame.schema, location)
    by_day = columns.DAY in schema.fieldNames() and columns.DAY not in frame.columns
    stored = columns.without_day(schema) if by_day else schema
    rows = frame.select(*[_column(field, frame.schema) for field in stored])
    write = _write_task(store, stored, by_day, layout)
    files = [TableFile(**row.asDict()) for row in rows.mapInArrow(write, FACTS).collect()]
    times = times or Times()
    text = columns.schema_text(schema)
    following = manifest.followed_by(
        now_ms=times.now_ms(), added=files, fence=(query, number), schema=text, layout=layout
    )
    store.commit(following)
    tidy_table(store, lambda parts, task: run_tasks(frame.sparkSession, f"table {location}", parts, task), times)
    return True


def query_of(frame: DataFrame) -> str:
    """The streaming query of the batch that is being written."""
    query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
    if not query:
        raise InvalidOption(
            "This is not inside foreachBatch: give `query`, a name under which the number of the batch is counted."
        )
    return query


def is_there(stored: int | None, number: int, location: str) -> bool:
    """Whether the batch of this number is in the table. Raises StaleBatch."""
    if stored is not None and number < stored:
        raise StaleBatch(
            f"Batch {stored} of this query is in the table at {location} already, and batch {number} comes after it: its "
            "checkpoint was set back. Go on with the checkpoint as it was, or begin a new one."
        )
    return stored == number


def _layout(manifest: Manifest, given: StructType, location: str) -> tuple[StructType, int]:
    """The table's columns, wider if the rows have more; by day where they have a `timestamp`."""
    has_time = TIMESTAMP in given.fieldNames() and isinstance(given[TIMESTAMP].dataType, TimestampType)
    if not manifest.schema:
        by_day = has_time and columns.DAY not in given.fieldNames()
        return columns.table_columns(given) if by_day else given, 0
    known = columns.parse_schema(manifest.schema)
    wider = columns.widened(known, given, location)
    if wider.simpleString() == known.simpleString():
        return known, manifest.layout
    return wider, manifest.layout + 1


def _column(wanted: StructField, given: StructType) -> Column:
    """All files of a layout have all of its columns."""
    if wanted.name not in given.fieldNames():
        return lit(None).cast(wanted.dataType).alias(wanted.name)
    kind = given[wanted.name].dataType
    if kind.simpleString() != wanted.dataType.simpleString():
        raise SchemaMismatch(
            f"The table has {wanted.dataType.simpleString()} in `{wanted.name}`, and the rows have {kind.simpleString()}: "
            "select all of its fields, or begin another table."
        )
    return col(f"`{wanted.name}`")


def _write_task(
    store: TableStore, stored: StructType, by_day: bool, layout: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(stored, timezone="UTC")
        files = TableFiles(store, schema, by_day=by_day, layout=layout)
        for batch in batches:
            files.write(batch.cast(schema))
        done = files.close()
        yield pa.RecordBatch.from_pylist(
            [{name: getattr(file, name) for name in TableFile.__struct_fields__} for file in done], _facts_schema()
        )

    return write


def _facts_schema() -> pa.Schema:
    text, number = pa.string(), pa.int64()
    return pa.schema(
        [
            ("path", text),
            ("rows", number),
            ("bytes", number),
            ("day", text),
            ("last_ms", number),
            ("written_ms", number),
            ("layout", pa.int32()),
        ]
    )
