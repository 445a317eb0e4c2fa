"""Keeps a table in order: small files become larger ones, old ones go, and what nobody names is deleted in time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.pipelines.tables import columns
from mainstem.pipelines.tables.files import FILE_BYTES_MAX, merge_files
from mainstem.pipelines.tables.manifest import Manifest, TableFile
from mainstem.pipelines.tables.store import TableStore
from mainstem.pipelines.tables.tasks import Task

MERGE_FILES_MIN = 8
"""From this number of small files of about one size on, they are merged."""
MERGE_FILES_MAX = 64
SETTLED_MS = 3_600_000
"""A day that nothing was written to for so long is merged whole."""
GRACE_MS = 3_600_000
"""How long files outlive the manifest that named them, for those who read them still."""
ORPHAN_MS = 6 * 3_600_000
"""How old a file must be that no manifest names, to be deleted: its task has ended by then."""

Run = Callable[[Sequence[Any], Task], list[TableFile]]
"""Runs a task for each of the parts."""


class Times(NamedTuple):
    """When things are done; tests hurry."""

    settled_ms: int = SETTLED_MS
    grace_ms: int = GRACE_MS
    orphan_ms: int = ORPHAN_MS
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


class MergeTask:
    """Merges files of one day and layout; they say themselves what their columns are."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    def __call__(self, group: list[TableFile]) -> list[TableFile]:
        """Runs in a task."""
        with self._store.read_data(group[0].path) as stream:
            schema: pa.Schema = pq.read_schema(stream).remove_metadata()
        by_day = group[0].path.startswith(f"{columns.DAY}=")
        return merge_files(self._store, schema, group, by_day=by_day, layout=group[0].layout)


def tidy_table(store: TableStore, run: Run, times: Times, retention_ms: int = -1) -> Manifest | None:
    """Merge, forget, clean up: one commit at most. None where there is no table."""
    manifest = store.latest()
    if manifest is None:
        return None
    now_ms = times.now_ms()
    old = outlived_files(manifest.files, retention_ms, now_ms)
    groups = files_to_merge([file for file in manifest.files if file.path not in old], now_ms, times.settled_ms)
    merged = run(groups, MergeTask(store)) if groups else []
    deleted = [file.path for file in manifest.removed if file.removed_ms + times.grace_ms <= now_ms]
    for path in deleted:
        store.delete_data(path)
    removed = [*old, *(file.path for group in groups for file in group)]
    if removed or deleted:
        manifest = manifest.followed_by(now_ms=now_ms, added=merged, removed=removed, deleted=deleted)
        store.commit(manifest)
    return manifest


def collect_orphans(store: TableStore, times: Times) -> int:
    """Deletes files that no manifest names and no task writes any more."""
    limit_s = (times.now_ms() - times.orphan_ms) / 1_000
    found = [file.path for file in store.list_data() if file.modified_s <= limit_s]
    manifest = store.latest()
    named: set[str] = set()
    if manifest is not None:
        named = {file.path for file in manifest.files} | {file.path for file in manifest.removed}
    orphans = [path for path in found if path not in named]
    for path in orphans:
        store.delete_data(path)
    return len(orphans)


def outlived_files(files: Iterable[TableFile], retention_ms: int, now_ms: int) -> set[str]:
    """Whose youngest row is too old; a file goes as a whole."""
    if retention_ms < 0:
        return set()
    return {file.path for file in files if file.last_ms is not None and file.last_ms < now_ms - retention_ms}


def files_to_merge(files: Iterable[TableFile], now_ms: int, settled_ms: int) -> list[list[TableFile]]:
    """Groups of small files, each to become one.

    Files of about one size are merged when there are some, so that a row is written again a few times and not with every round;
    of a day that is over, whatever is small.
    """
    places: dict[tuple[str | None, int], list[TableFile]] = {}
    for file in files:
        if file.bytes < FILE_BYTES_MAX // 2:
            places.setdefault((file.day, file.layout), []).append(file)
    groups: list[list[TableFile]] = []
    for small in places.values():
        if max(file.written_ms for file in small) + settled_ms <= now_ms:
            sizes = [small]
        else:
            by_size: dict[int, list[TableFile]] = {}
            for file in small:
                by_size.setdefault(int(math.log(max(file.bytes, 1), MERGE_FILES_MIN)), []).append(file)
            sizes = [some for some in by_size.values() if len(some) >= MERGE_FILES_MIN]
        for some in sizes:
            groups += _filled(some)
    return groups


def _filled(files: list[TableFile]) -> list[list[TableFile]]:
    groups: list[list[TableFile]] = [[]]
    size = 0
    for file in files:
        if groups[-1] and (size + file.bytes > FILE_BYTES_MAX or len(groups[-1]) >= MERGE_FILES_MAX):
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.bytes
    return [group for group in groups if len(group) > 1]
