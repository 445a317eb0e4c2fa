"""Compaction by key, against a model of a few lines."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.local.merge.job import CompactionRule, MergeOutcome, RunOutput
from mainstem.wire.compression import Compression
from mainstem.wire.record_batch import Record, check_stored_batch, decode_records, encode_batch, read_header
from tests.support.storage.wal_builder import Workspace

LOG = 1
LATE = 1 << 50
RETENTION_MS = 1000


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def put(
    space: Workspace,
    records: Sequence[tuple[bytes | None, bytes | None]],
    time_ms: int = 10,
    producer_id: int = -1,
    compression: Compression = Compression.NONE,
) -> int:
    """Append a batch, transactional where a producer is named; answers its base offset."""
    rows = [(i, time_ms, key, value, ()) for i, (key, value) in enumerate(records)]
    known = producer_id >= 0
    batch = encode_batch(
        rows,
        producer_id=producer_id,
        producer_epoch=0 if known else -1,
        base_sequence=0 if known else -1,
        transactional=known,
        compression=compression,
    )
    return space.wal.append(LOG, batch)


def flush(space: Workspace) -> list[RunOutput]:
    space.wal.end_group()
    space.wal.end_file()
    return space.done(space.wal_job(wal=[space.wal.inputs[-1]])).runs


def compact(
    space: Workspace,
    runs: list[RunOutput],
    now_ms: int = 100,
    stable: int = LATE,
    before_ms: int = LATE,
    aborted: list[tuple[int, int, int]] | None = None,
    **changes: object,
) -> MergeOutcome:
    rule = CompactionRule(RETENTION_MS, before_ms, stable, aborted or [])
    outcome = space.done(space.runs_job(runs, compact={LOG: rule}, now_ms=now_ms, **changes))
    for batch in space.content(outcome.runs).get(LOG, []):
        check_stored_batch(batch)
    return outcome


def records_in(space: Workspace, runs: list[RunOutput]) -> list[Record]:
    """Records that are not markers."""
    batches = space.content(runs).get(LOG, [])
    return [record for batch in batches if not read_header(batch).is_control for record in decode_records(batch)]


def markers_in(space: Workspace, runs: list[RunOutput]) -> list[int]:
    headers = [read_header(batch) for batch in space.content(runs).get(LOG, [])]
    return [header.base_offset for header in headers if header.is_control]


def values_in(space: Workspace, runs: list[RunOutput]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records_in(space, runs)}


def coverage(space: Workspace, runs: list[RunOutput]) -> tuple[int, int]:
    indices = [space.load(run.path) for run in runs]
    slots = [(index, index.find(LOG)) for index in indices if index.find(LOG) >= 0]
    assert all(a.nexts[i] == b.firsts[j] for (a, i), (b, j) in zip(slots, slots[1:], strict=False))
    return slots[0][0].firsts[slots[0][1]], slots[-1][0].nexts[slots[-1][1]]


def test_last_record_per_key_stays_at_its_offset(space: Workspace) -> None:
    put(space, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")])
    put(space, [(b"c", b"1"), (b"b", b"2")])
    outcome = compact(space, flush(space))
    assert [(r.offset, r.key, r.value) for r in records_in(space, outcome.runs)] == [
        (2, b"a", b"2"),
        (3, b"c", b"1"),
        (4, b"b", b"2"),
    ]
    assert outcome.records_removed == 2


def test_batches_that_lose_nothing_are_not_touched(space: Workspace) -> None:
    put(space, [(b"a", b"1"), (b"b", b"1")])
    put(space, [(b"a", b"2"), (b"c", b"1")], compression=Compression.ZSTD)
    before = space.wal.expected[LOG]
    after = space.content(compact(space, flush(space)).runs)[LOG]
    assert after[1] == before[1]
    assert after[0] != before[0]
    old, new = read_header(before[0]), read_header(after[0])
    assert (old.base_offset, old.next_offset) == (new.base_offset, new.next_offset)


def test_other_logs_of_the_job_are_copied(space: Workspace) -> None:
    put(space, [(b"a", b"1"), (b"a", b"2")])
    space.wal.append(2, encode_batch([(0, 1, b"a", b"1", ()), (1, 1, b"a", b"2", ())]))
    outcome = compact(space, flush(space))
    assert space.content(outcome.runs)[2] == space.wal.expected[2]


class Step(NamedTuple):
    kind: str
    producer: int
    records: list[tuple[int, bool]]
    codec: Compression
    end: int


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["data"] * 5 + ["transactional"] * 4 + ["commit", "abort", "abort"]),
        st.integers(5, 7),
        st.lists(st.tuples(st.integers(0, 6), st.sampled_from([False, False, False, True])), min_size=1, max_size=4),
        st.sampled_from([Compression.NONE, Compression.NONE, Compression.SNAPPY, Compression.ZSTD]),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=40,
)


class Model:
    """All records as appended, with what became of their transactions."""

    def __init__(self) -> None:
        self.records: dict[int, tuple[int, bytes, bytes | None, int]] = {}
        """Offset -> (base of its batch, key, value, producer or -1)."""
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []
        self.end = 0

    def is_aborted(self, offset: int) -> bool:
        base, _, _, producer = self.records[offset]
        return any(p == producer and first <= base <= last for p, first, last in self.aborted)

    def stable(self) -> int:
        return min(self.open.values(), default=self.end)

    def kept(self, uncleanable: int) -> list[int]:
        """Offsets that stay in a first compaction of what is below `uncleanable`, tombstones not yet expired."""
        latest: dict[bytes, int] = {}
        clean = [o for o in self.records if self.records[o][0] < uncleanable and not self.is_aborted(o)]
        for offset in clean:
            latest[self.records[offset][1]] = offset
        return [
            offset
            for offset in self.records
            if self.records[offset][0] >= uncleanable or latest.get(self.records[offset][1]) == offset
        ]


def build(space: Workspace, todo: list[Step]) -> tuple[Model, list[RunOutput]]:
    model = Model()
    runs: list[RunOutput] = []
    for number, (kind, producer, records, codec, end) in enumerate(todo):
        if kind in ("data", "transactional"):
            producer = producer if kind == "transactional" else -1
            rows = [(b"%d" % key, None if null else b"%d-%d" % (number, i)) for i, (key, null) in enumerate(records)]
            base = put(space, rows, producer_id=producer, compression=codec)
            for i, (key, value) in enumerate(rows):
                model.records[base + i] = (base, key, value, producer)
            if producer >= 0:
                model.open.setdefault(producer, base)
        else:
            marker = space.wal.mark(LOG, producer, 0, commit=kind == "commit")
            first = model.open.pop(producer, None)
            if kind == "abort" and first is not None:
                model.aborted.append((producer, first, marker))
        model.end = space.wal.nexts[LOG]
        if end == 0:
            runs += flush(space)
    return model, runs + flush(space)


@settings(max_examples=60)
@given(steps, st.sampled_from([150, 1 << 16]), st.sampled_from([1, 1 << 30]), st.sampled_from([1, 3, 1000]))
def test_against_the_model(todo: list[Step], block: int, run: int, keys: int) -> None:
    limits = MergeLimits(compacted_keys_max=keys)
    with tempfile.TemporaryDirectory() as directory:
        space = Workspace(Path(directory))
        model, runs = build(space, todo)
        rule = {
            "stable": model.stable(),
            "aborted": model.aborted,
            "block_bytes": block,
            "run_bytes_max": run,
            "limits": limits,
        }
        first = compact(space, runs, now_ms=100, **rule)  # type: ignore[arg-type]
        kept = records_in(space, first.runs)
        expected = model.kept(model.stable())
        assert [record.offset for record in kept] == expected
        for record in kept:
            assert (record.key, record.value) == model.records[record.offset][1:3]
            assert record.timestamp_ms == 10
        assert first.records_removed == len(model.records) - len(expected)
        assert coverage(space, first.runs) == (0, model.end)

        # again before any horizon: nothing new
        second = compact(space, first.runs, now_ms=200, **rule)  # type: ignore[arg-type]
        assert records_in(space, second.runs) == kept
        # and after it: tombstones go where they may
        third = compact(space, second.runs, now_ms=100 + RETENTION_MS, **rule)  # type: ignore[arg-type]
        remaining = [r.offset for r in kept if r.value is not None or model.records[r.offset][0] >= model.stable()]
        assert [record.offset for record in records_in(space, third.runs)] == remaining
        assert coverage(space, third.runs) == (0, model.end)


@settings(max_examples=40)
@given(steps, st.data())
def test_uncleanable_records_stay_and_decide_nothing(todo: list[Step], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        space = Workspace(Path(directory))
        model, runs = build(space, todo)
        stable = data.draw(st.integers(0, model.stable()))
        bases = [read_header(batch) for batch in space.wal.expected[LOG]]
        uncleanable = next((h.base_offset for h in bases if h.next_offset > stable), model.end)
        outcome = compact(space, runs, stable=stable, aborted=model.aborted)
        assert [record.offset for record in records_in(space, outcome.runs)] == model.kept(uncleanable)


def test_minimum_lag_is_by_time(space: Workspace) -> None:
    put(space, [(b"a", b"1")], time_ms=10)
    put(space, [(b"a", b"2")], time_ms=20)
    put(space, [(b"a", b"3")], time_ms=21)
    put(space, [(b"a", b"4")], time_ms=5)
    runs = flush(space)
    outcome = compact(space, runs, before_ms=20)
    assert [record.offset for record in records_in(space, outcome.runs)] == [1, 2, 3]
    outcome = compact(space, runs, before_ms=9)
    assert [record.offset for record in records_in(space, outcome.runs)] == [0, 1, 2, 3]


def test_life_of_a_tombstone(space: Workspace) -> None:
    put(space, [(b"a", b"1"), (b"b", b"1")])
    put(space, [(b"a", None), (b"c", b"1")])
    runs = compact(space, flush(space), now_ms=100).runs
    assert values_in(space, runs) == {b"a": None, b"b": b"1", b"c": b"1"}
    headers = {h.base_offset: h for h in map(read_header, space.content(runs)[LOG])}
    assert headers[2].delete_horizon_ms == 100 + RETENTION_MS
    assert headers[0].delete_horizon_ms is None
    horizon = space.content(runs)[LOG][1]
    runs = compact(space, runs, now_ms=99 + RETENTION_MS).runs
    assert space.content(runs)[LOG][1] == horizon, "the horizon does not move"
    runs = compact(space, runs, now_ms=100 + RETENTION_MS).runs
    assert values_in(space, runs) == {b"b": b"1", b"c": b"1"}
    assert {r.timestamp_ms for r in records_in(space, runs)} == {10}


def test_a_newer_value_ends_a_tombstone(space: Workspace) -> None:
    put(space, [(b"a", None)])
    runs = compact(space, flush(space), now_ms=100).runs
    put(space, [(b"a", b"again")])
    runs = compact(space, runs + flush(space), now_ms=101).runs
    assert values_in(space, runs) == {b"a": b"again"}


def test_life_of_an_aborted_transaction(space: Workspace) -> None:
    put(space, [(b"a", b"1")])
    first = put(space, [(b"a", b"never"), (b"b", b"never")], producer_id=7)
    marker = space.wal.mark(LOG, 7, 0, commit=False)
    put(space, [(b"c", b"1")], producer_id=8)
    commit = space.wal.mark(LOG, 8, 0, commit=True)
    aborted = [(7, first, marker)]
    runs = compact(space, flush(space), now_ms=100, aborted=aborted).runs
    assert values_in(space, runs) == {b"a": b"1", b"c": b"1"}
    assert markers_in(space, runs) == [marker, commit], "readers of the records may not have seen it yet"
    runs = compact(space, runs, now_ms=200, aborted=aborted).runs
    assert markers_in(space, runs) == [marker, commit]
    headers = {h.base_offset: h for h in map(read_header, space.content(runs)[LOG])}
    assert headers[marker].delete_horizon_ms == 200 + RETENTION_MS
    assert headers[commit].delete_horizon_ms is None, "its records are still there"
    runs = compact(space, runs, now_ms=200 + RETENTION_MS, aborted=aborted).runs
    assert markers_in(space, runs) == [commit]
    assert values_in(space, runs) == {b"a": b"1", b"c": b"1"}


def test_end_of_an_emptied_log_is_kept(space: Workspace) -> None:
    put(space, [(b"a", None)])
    put(space, [(b"b", None)])
    space.wal.append(2, encode_batch([(0, 1, b"k", b"v", ())]))
    runs = compact(space, flush(space), now_ms=100).runs
    runs = compact(space, runs, now_ms=100 + RETENTION_MS).runs
    assert LOG not in {log for log, batches in space.content(runs).items() if batches}
    assert coverage(space, runs) == (0, 2)
    # by any later merge too, until the start of the log passes it
    runs = space.done(space.runs_job(runs)).runs
    assert coverage(space, runs) == (0, 2)
    runs = space.done(space.runs_job(runs, starts={LOG: 2})).runs
    assert space.load(runs[0].path).find(LOG) == -1


def test_records_without_a_key_go(space: Workspace) -> None:
    put(space, [(None, b"1"), (b"a", b"1")])
    outcome = compact(space, flush(space))
    assert values_in(space, outcome.runs) == {b"a": b"1"}


def test_batch_that_cannot_be_decoded_stays(space: Workspace) -> None:
    put(space, [(b"a", b"1")])
    batch = encode_batch([(0, 10, b"a", b"x" * 100, ())], compression=Compression.ZSTD)
    batch[70:] = bytes(len(batch) - 70)
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    space.wal.append(LOG, batch)
    put(space, [(b"a", b"2")])
    runs = flush(space)
    outcome = compact(space, runs)
    assert space.content(outcome.runs)[LOG] == space.wal.expected[LOG][1:]


def test_many_keys_are_compacted_by_shares(space: Workspace) -> None:
    for value in (b"1", b"2"):
        for key in range(200):
            put(space, [(b"%d" % key, value)])
    outcome = compact(space, flush(space), limits=MergeLimits(compacted_keys_max=10))
    assert [record.offset for record in records_in(space, outcome.runs)] == list(range(200, 400))
