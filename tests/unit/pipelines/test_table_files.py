"""Tables on a disk, without Spark: files by day, merging, and one manifest after the other."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mainstem.pipelines.tables.files import FileLimits, TableFiles, read_files
from mainstem.pipelines.tables.housekeeping import (
    MERGE_FILES_MIN,
    MergeTask,
    Times,
    collect_orphans,
    files_to_merge,
    outlived_files,
    tidy_table,
)
from mainstem.pipelines.tables.manifest import Manifest, TableFile
from mainstem.pipelines.tables.store import MANIFESTS_KEPT, TableStore, TableTaken

SCHEMA = pa.schema([("value", pa.binary()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))])
DAY_US = 86_400_000_000


def rows(*times_us: int | None, first: int = 0) -> pa.RecordBatch:
    offsets = range(first, first + len(times_us))
    return pa.RecordBatch.from_arrays(
        [pa.array([b"%d" % number for number in offsets]), pa.array(offsets, pa.int64()),
         pa.array(times_us, pa.int64()).cast(SCHEMA.field("timestamp").type)],
        schema=SCHEMA,
    )  # fmt: skip


def offsets_of(store: TableStore, files: list[TableFile]) -> list[int]:
    return [number for batch in read_files(store, files, SCHEMA) for number in batch.column("offset").to_pylist()]


def run(parts: list[list[TableFile]], task: MergeTask) -> list[TableFile]:
    return [file for part in parts for file in task(part)]


def test_each_day_has_its_files(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path / "t"))
    files = TableFiles(store, SCHEMA, by_day=True)
    files.write(rows(0, DAY_US - 1, DAY_US, None, -1, 2**62, first=10))
    done = {file.day or "none": file for file in files.close()}
    assert set(done) == {"1970-01-01", "1970-01-02", "1969-12-31", "none"}
    assert offsets_of(store, [done["1970-01-01"]]) == [10, 11]
    assert sorted(offsets_of(store, [done["none"]])) == [13, 15]
    assert done["none"].path.startswith("day=__HIVE_DEFAULT_PARTITION__/")
    assert done["1970-01-01"].last_ms == (DAY_US - 1) // 1_000
    for file in done.values():
        path = tmp_path / "t" / "data" / file.path
        assert path.stat().st_size == file.bytes
        assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_days_take_turns_and_files_are_ended(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path))
    limits = FileLimits(file_bytes_max=3_000, buffer_bytes_max=2_000, days_open_max=3)
    files = TableFiles(store, SCHEMA, by_day=True, limits=limits)
    chance = random.Random(5)
    for batch in range(100):
        files.write(rows(*(chance.randrange(9) * DAY_US for _ in range(50)), first=50 * batch))
    done = files.close()
    assert len(done) > 18
    assert sorted(offsets_of(store, done)) == list(range(5_000))


def test_one_of_two_writers_learns_that_the_other_was_faster(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path))
    assert store.latest() is None
    first = Manifest(0, "{}").followed_by(now_ms=1, ends={0: 1})
    store.commit(first)
    with pytest.raises(TableTaken, match="Version 1 of the table"):
        store.commit(Manifest(0, "{}").followed_by(now_ms=1, ends={0: 2}))
    assert store.latest() == first
    assert [path.name for path in (tmp_path / "manifests").iterdir()] == ["00000000000000000001.jsonl"]


def test_a_few_manifests_are_kept(tmp_path: Path) -> None:
    store, manifest = TableStore(f"file://{tmp_path}"), Manifest(0, "{}")
    for number in range(9):
        manifest = manifest.followed_by(now_ms=number)
        store.commit(manifest)
    assert store.versions() == list(range(10 - MANIFESTS_KEPT, 10))
    # what a killed writer leaves behind is not taken for one
    (tmp_path / "manifests" / ".00000000000000000010.jsonl.ab").write_bytes(b"{")
    assert store.latest() == manifest


def test_small_files_are_merged_and_the_old_ones_deleted_in_time(tmp_path: Path) -> None:
    store, now = TableStore(str(tmp_path)), [1_000_000]
    times = Times(settled_ms=10_000, grace_ms=5_000, orphan_ms=0, now_ms=lambda: now[0])
    manifest = Manifest(0, "{}")
    written = []
    for number in range(MERGE_FILES_MIN):
        files = TableFiles(store, SCHEMA, by_day=True)
        files.write(rows(*range(number, number + 3), first=3 * number))
        written += [
            TableFile(file.path, file.rows, file.bytes, file.day, file.last_ms, now[0]) for file in files.close()
        ]
    manifest = manifest.followed_by(now_ms=now[0], added=written, ends={0: 24})
    store.commit(manifest)
    merged = tidy_table(store, run, times)
    assert merged is not None
    assert merged == store.latest()
    assert (merged.file_count, merged.rows, merged.ends) == (1, 24, {0: 24})
    assert offsets_of(store, list(merged.files)) == list(range(24))
    assert offsets_of(store, written) == list(range(24)), "a reader still has them"
    assert tidy_table(store, run, times) == merged
    now[0] += 5_000
    later = tidy_table(store, run, times)
    assert later is not None
    assert later.removed == ()
    assert [file.path for file in store.list_data()] == [merged.files[0].path]


def test_what_no_manifest_names_is_deleted_when_it_is_old(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path))
    files = TableFiles(store, SCHEMA, by_day=True)
    files.write(rows(1, 2))
    (kept,) = files.close()
    store.commit(Manifest(0, "{}").followed_by(now_ms=0, added=[kept]))
    files = TableFiles(store, SCHEMA, by_day=True)
    files.write(rows(3))
    files.close()
    assert collect_orphans(store, Times()) == 0
    assert collect_orphans(store, Times(orphan_ms=-60_000)) == 1
    assert [file.path for file in store.list_data()] == [kept.path]


def test_which_files_are_merged() -> None:
    def file(name: str, size: int, day: str = "2030-01-01", written_ms: int = 100, layout: int = 0) -> TableFile:
        return TableFile(name, 1, size, day, 0, written_ms, layout)

    few = [file(str(number), 100) for number in range(MERGE_FILES_MIN - 1)]
    assert files_to_merge(few, 150, 100) == []
    assert files_to_merge(few, 200, 100) == [few], "the day is over"
    assert files_to_merge([*few, file("other", 100, "2030-01-02")], 150, 100) == []
    assert files_to_merge([*few, file("other", 100, layout=1)], 150, 100) == []
    assert files_to_merge([*few, file("large", 1 << 20)], 150, 100) == []
    more = [*few, file("same", 110)]
    assert files_to_merge(more, 150, 100) == [more]
    assert files_to_merge([file("whole", 100 << 20)], 10**9, 100) == []
    halves = [file(str(number), 50 << 20) for number in range(5)]
    assert [len(group) for group in files_to_merge(halves, 10**9, 100)] == [2, 2]


def test_retention_of_a_table_takes_whole_files() -> None:
    files = [TableFile("old", 1, 1, last_ms=10), TableFile("young", 1, 1, last_ms=60), TableFile("timeless", 1, 1)]
    assert outlived_files(files, -1, 100) == set()
    assert outlived_files(files, 50, 100) == {"old"}


def test_a_relative_place_is_refused() -> None:
    with pytest.raises(Exception, match="absolute path or a URI"):
        TableStore("tables/here")


def test_an_object_store_is_told_to_spark_by_its_name() -> None:
    assert TableStore("s3://bucket/orders/").spark_path("a.parquet") == "s3a://bucket/orders/data/a.parquet"
    assert TableStore("/data/t").spark_path() == "file:///data/t/data"
