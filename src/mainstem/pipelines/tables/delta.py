"""Rows of a streaming query into a table of Delta Lake, each batch once.

Tasks write Parquet files; the driver adds all of them to the table's log by one commit, which carries the number of the batch
under the query's name (Delta's application transaction). The rows never come to the driver. What a failed task leaves behind no
commit names: the table's own `vacuum` deletes it.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType, StructType

from mainstem.pipelines.errors import InvalidOption, PipelineError, SchemaMismatch
from mainstem.pipelines.tables.files import NO_DAY
from mainstem.pipelines.tables.sink import is_there, query_of

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

FACTS = "path STRING, bytes BIGINT, rows BIGINT, partition_values STRING"
ROWS_PER_FILE_MAX = 4_000_000
ROWS_PER_GROUP_MAX = 1_000_000
FILES_OPEN_MAX = 64


class DeltaMissing(PipelineError):
    """The package is not installed."""


def append_to_delta(
    frame: DataFrame, location: str, number: int, *, query: str | None = None, partition_by: Sequence[str] = ()
) -> bool:
    """Write a micro-batch; answers whether it was this call, or one before it. The table is made where there is none.

    Without `query`, the name under which the number counts, this must run inside `foreachBatch`.
    """
    query = query or query_of(frame)
    table = _open(location, frame.schema, partition_by)
    if is_there(table.transaction_version(query), number, location):
        return False
    columns = table.metadata().partition_columns
    if partition_by and list(partition_by) != columns:
        raise InvalidOption(
            f"The table at {location} is divided by {columns or 'nothing'}, not by {list(partition_by)}."
        )
    rows = _fitting(frame, table, location)
    written = rows.mapInArrow(_write_task(location, rows.schema, columns), FACTS).collect()
    _commit(table, query, number, written, columns)
    return True


def read_delta(spark: SparkSession, location: str) -> DataFrame:
    """The table as it is now, by Spark's own Parquet reader."""
    table = _delta().DeltaTable(location)
    if "deletionVectors" in (table.protocol().reader_features or ()):
        raise InvalidOption(f"The table at {location} has deletion vectors, which this reader does not know.")
    files = table.file_uris()
    reader = spark.read.option("basePath", _spark_path(location))
    schema = _spark_schema(table)
    return reader.schema(schema).parquet(*map(_spark_path, files)) if files else spark.createDataFrame([], schema)


def _delta() -> Any:
    try:
        import deltalake
    except ImportError:
        raise DeltaMissing("deltalake is not installed: pip install 'mainstem[delta]'.") from None
    return deltalake


def _open(location: str, schema: StructType, partition_by: Sequence[str]) -> DeltaTable:
    delta = _delta()
    if urlsplit(location).scheme in ("", "file"):
        Path(_local(location)).mkdir(parents=True, exist_ok=True)
    for name in partition_by:
        if name not in schema.fieldNames():
            raise InvalidOption(
                f"The table cannot be divided by `{name}`: the rows have {', '.join(schema.fieldNames())}."
            )
        if not isinstance(schema[name].dataType, StringType | IntegralType | DateType | BooleanType):
            raise InvalidOption(f"The table cannot be divided by `{name}`: use text, whole numbers, days or booleans.")
    if not delta.DeltaTable.is_deltatable(location):
        wanted = delta.Schema.from_arrow(to_arrow_schema(schema, timezone="UTC"))
        # another may make it at the same time: then it is theirs
        delta.DeltaTable.create(location, wanted, mode="ignore", partition_by=list(partition_by) or None)
    table: DeltaTable = delta.DeltaTable(location)
    return table


def _fitting(frame: DataFrame, table: DeltaTable, location: str) -> DataFrame:
    """In the table's order. Columns may be missing, and nothing else may differ."""
    known = {field.name: field.dataType.simpleString() for field in _spark_schema(table)}
    for field in frame.schema:
        if known.get(field.name) != field.dataType.simpleString():
            has = f"{known[field.name]} in" if field.name in known else "no column"
            raise SchemaMismatch(
                f"The table at {location} has {has} `{field.name}`, and the rows have {field.dataType.simpleString()}: "
                "select what it has, or begin another table."
            )
    return frame.select(*[name for name in known if name in frame.columns])


def _spark_schema(table: DeltaTable) -> StructType:
    # Delta writes its schema as Spark does
    return StructType.fromJson(json.loads(table.schema().to_json()))


def _write_task(
    location: str, given: StructType, partition_by: Sequence[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(given, timezone="UTC")
        base, files = _file_system(location)
        found: list[dict[str, Any]] = []

        def visit(written: Any) -> None:
            path = written.path.removeprefix(f"{base}/")
            found.append(
                {
                    "path": path,
                    "bytes": written.size,
                    "rows": written.metadata.num_rows,
                    "partition_values": json.dumps(_values_in(path)),
                }
            )

        parquet = pads.ParquetFileFormat()
        kinds = pa.schema([schema.field(name) for name in partition_by])
        reader = pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in batches))
        pads.write_dataset(
            reader,
            base,
            basename_template=f"part-{uuid.uuid4().hex}-{{i}}.parquet",
            format=parquet,
            file_options=parquet.make_write_options(compression="zstd"),
            filesystem=files,
            partitioning=pads.partitioning(kinds, flavor="hive") if partition_by else None,
            max_rows_per_file=ROWS_PER_FILE_MAX,
            max_rows_per_group=ROWS_PER_GROUP_MAX,
            max_open_files=FILES_OPEN_MAX,
            existing_data_behavior="overwrite_or_ignore",
            file_visitor=visit,
        )
        if isinstance(files, pafs.LocalFileSystem):
            _sync(base, [one["path"] for one in found])
        facts = [("path", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64()), ("partition_values", pa.string())]
        yield pa.RecordBatch.from_pylist([one for one in found if one["rows"]], pa.schema(facts))

    return write


def _commit(table: DeltaTable, query: str, number: int, written: Sequence[Any], partition_by: Sequence[str]) -> None:
    from deltalake import CommitProperties, Transaction
    from deltalake.transaction import AddAction, RemoveAction

    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path=row.path,
            size=row.bytes,
            partition_values=json.loads(row.partition_values),
            modification_time=time.time_ns() // 1_000_000,
            data_change=True,
            stats=json.dumps({"numRecords": row.rows}),
        )
        for row in written
    ]
    table.create_write_transaction(
        actions,
        mode="append",
        schema=table.schema(),
        partition_by=list(partition_by) or None,
        commit_properties=CommitProperties(app_transactions=[Transaction(query, number)]),
    )


def _values_in(path: str) -> dict[str, str | None]:
    """From the directories of a file: day=2030-01-31/..."""
    parts = [part.partition("=") for part in path.split("/")[:-1]]
    return {unquote(name): None if value == NO_DAY else unquote(value) for name, _, value in parts}


def _file_system(location: str) -> tuple[str, pafs.FileSystem]:
    if urlsplit(location).scheme in ("", "file"):
        return _local(location), pafs.LocalFileSystem()
    files, base = pafs.FileSystem.from_uri(location)
    return base.rstrip("/"), files


def _local(location: str) -> str:
    where = urlsplit(location)
    return os.path.abspath(unquote(where.path) if where.scheme else location)  # noqa: PTH100 - links stay


def _spark_path(location: str) -> str:
    where = urlsplit(location)
    if where.scheme in ("", "file"):
        return f"file://{_local(location)}"
    return location.replace("s3://", "s3a://", 1)


def _sync(base: str, paths: Sequence[str]) -> None:
    """Files, and the directories that name them."""
    wanted = {Path(base), *(Path(base, path) for path in paths), *(Path(base, path).parent for path in paths)}
    for path in wanted:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
