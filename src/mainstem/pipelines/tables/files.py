"""Rows to Parquet, and small files to larger ones. Runs in tasks, on executors; what comes back are facts, never rows.

Files are written by Arrow, straight from the decoded batches of the log: on their way through Spark they would be copied four
times. Each is synced before its task ends, under a name that no other attempt has; what a failed task leaves behind is nobody's.
"""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.pipelines.tables.manifest import TableFile
from mainstem.pipelines.tables.store import TableStore

FILE_BYTES_MAX = 128 << 20
"""About: a file is ended behind the row group that passes it."""
MERGE_BATCH_ROWS = 64 << 10
DAY_US = 86_400_000_000
FIRST_DAY, LAST_DAY = -719_162, 2_932_895
"""The years 1 to 9999 but for the last day, in days since 1970: a time outside them is of no day."""
NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""How Spark calls the directory of what has no day."""
TIMESTAMP = "timestamp"


class FileLimits(NamedTuple):
    """What the files of one task keep to; tests make it small."""

    file_bytes_max: int = FILE_BYTES_MAX
    buffer_bytes_max: int = 64 << 20
    """Rows that wait in memory, of all open files together."""
    days_open_max: int = 16
    """Files that a task writes at a time: rows of more days than these take turns."""


LIMITS = FileLimits()


class TableFiles:
    """Files of one task; with `by_day`, one directory for each day of the column `timestamp`."""

    def __init__(
        self, store: TableStore, schema: pa.Schema, *, by_day: bool, layout: int = 0, limits: FileLimits = LIMITS
    ) -> None:
        self._store = store
        self._limits = limits
        self._schema = schema
        self._by_day = by_day
        self._layout = layout
        self._open: OrderedDict[int | None, _OpenFile] = OrderedDict()
        self._done: list[TableFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Rows of any days."""
        if not batch.num_rows:
            return
        if not self._by_day:
            self._add(None, batch)
        else:
            for day, rows in _split_days(batch):
                self._add(day, rows)
        if sum(file.waiting_bytes for file in self._open.values()) > self._limits.buffer_bytes_max:
            for day in list(self._open):
                self._open[day].flush()
                if self._open[day].written_bytes >= self._limits.file_bytes_max:
                    self._end(day)

    def close(self) -> list[TableFile]:
        """All files, durable."""
        for day in list(self._open):
            self._end(day)
        return self._done

    def _add(self, day: int | None, batch: pa.RecordBatch) -> None:
        file = self._open.get(day)
        if file is None:
            if len(self._open) >= self._limits.days_open_max:
                self._end(next(iter(self._open)))
            file = self._open[day] = _OpenFile(self._store, self._schema, self._directory(day))
        self._open.move_to_end(day)
        file.add(batch)

    def _directory(self, day: int | None) -> str:
        if not self._by_day:
            return ""
        return f"day={NO_DAY if day is None else np.datetime64(day, 'D')}/"

    def _end(self, day: int | None) -> None:
        ended = self._open.pop(day).close()
        named = None if day is None else str(np.datetime64(day, "D"))
        self._done.append(
            TableFile(
                ended.path,
                rows=ended.rows,
                bytes=ended.written_bytes,
                day=named,
                last_ms=ended.last_ms,
                written_ms=time.time_ns() // 1_000_000,
                layout=self._layout,
            )
        )


class _OpenFile:
    def __init__(self, store: TableStore, schema: pa.Schema, directory: str) -> None:
        self._store = store
        self.path = f"{directory}part-{uuid.uuid4().hex}.parquet"
        self._stream = store.open_data(self.path)
        repetitive = [field.name for field in schema if not pa.types.is_binary(field.type) and field.name != "offset"]
        self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd", use_dictionary=repetitive)
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = 0
        self.written_bytes = 0
        self.rows = 0
        self.last_ms: int | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self.waiting_bytes += batch.nbytes
        self.rows += batch.num_rows

    def flush(self) -> None:
        """What waits becomes a row group."""
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(table, row_group_size=len(table))
        self.written_bytes = self._stream.tell()
        if TIMESTAMP in self._schema.names and pa.types.is_timestamp(self._schema.field(TIMESTAMP).type):
            times = [_times_us(batch) for batch in self._waiting]
            youngest = [int(np.max(one)) // 1_000 for one in times if len(one)]
            self.last_ms = max([*youngest, *([] if self.last_ms is None else [self.last_ms])], default=None)
        self._waiting.clear()
        self.waiting_bytes = 0

    def close(self) -> _OpenFile:
        self.flush()
        self._writer.close()
        self.written_bytes = self._stream.tell()
        self._store.close_data(self.path, self._stream)
        return self


def merge_files(
    store: TableStore, schema: pa.Schema, files: Sequence[TableFile], *, by_day: bool, layout: int
) -> list[TableFile]:
    """The rows of all, in the order of the files; they are of one day and one layout."""
    merged = TableFiles(store, schema, by_day=by_day, layout=layout)
    for batch in read_files(store, files, schema):
        merged.write(batch)
    return merged.close()


def read_files(store: TableStore, files: Iterable[TableFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Their rows, as they are stored."""
    for file in files:
        with store.read_data(file.path) as stream:
            # the name of a directory like day=... is no column here
            for batch in pq.ParquetFile(stream).iter_batches(MERGE_BATCH_ROWS, columns=schema.names):
                yield batch.cast(schema)


def _times_us(batch: pa.RecordBatch) -> Any:
    column = batch.column(batch.schema.get_field_index(TIMESTAMP))
    return np.asarray(column.drop_null().cast(pa.int64()))


def _split_days(batch: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    column = batch.column(batch.schema.get_field_index(TIMESTAMP))
    if column.null_count:
        known = column.is_valid()
        yield None, batch.filter(column.is_null())
        batch = batch.filter(known)
        column = batch.column(batch.schema.get_field_index(TIMESTAMP))
        if not batch.num_rows:
            return
    days = np.floor_divide(np.asarray(column.cast(pa.int64())), DAY_US)
    first, last = int(days.min()), int(days.max())
    if first == last:
        yield _real_day(first), batch
        return
    days[(days < FIRST_DAY) | (days > LAST_DAY)] = LAST_DAY + 1
    for day in np.unique(days).tolist():
        yield _real_day(day), batch.filter(pa.array(days == day))


def _real_day(day: int) -> int | None:
    return day if FIRST_DAY <= day <= LAST_DAY else None
