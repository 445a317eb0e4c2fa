"""State runs: the last word per key, and producers as a straight replay would know them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.storage.local.merge.job import StateJob, decode_outcome, encode_job
from mainstem.storage.local.merge.merge import run_merge_job
from mainstem.storage.local.runs.state_run import read_state_run, write_state_run
from mainstem.storage.sequencer.engine_scopes import ABORTED, LOGS, PRODUCERS, TRANSACTIONS, log_key, pair_key
from mainstem.storage.sequencer.producers import Producer, decode_producer, encode_producer
from mainstem.testing.disk import SimulatedDisk
from mainstem.wire.record_batch import encode_batch
from tests.support.storage.wal_builder import Workspace

NEVER_MS = 1 << 50


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def state_of(space: Workspace, path: str | None) -> dict[tuple[str, bytes], bytes | None]:
    assert path is not None
    items = list(read_state_run(space.disk, path).items)
    keys = [(scope, key) for scope, key, _ in items]
    assert keys == sorted(keys)
    return {(scope, key): value for scope, key, value in items}


def join(space: Workspace, paths: list[str], now_ms: int = 0, expiry_ms: int = NEVER_MS) -> str:
    outcome = space.done(StateJob(paths, str(space.root / "state"), now_ms, expiry_ms))
    assert outcome.state_run is not None
    return outcome.state_run


def merge_last(space: Workspace) -> str:
    state_run = space.done(space.wal_job(wal=[space.wal.inputs[-1]])).state_run
    assert state_run is not None
    return state_run


def test_last_word_wins_over_files_and_groups(space: Workspace) -> None:
    for value in (b"1", b"2"):
        space.wal.mutate("scope", b"a", value)
        space.wal.mutate("scope", b"gone", value)
        space.wal.end_group()
        space.wal.mutate("scope", b"b", value)
        space.wal.end_group()
        space.wal.end_file()
    space.wal.mutate("scope", b"gone", None)
    space.wal.end_group()
    space.wal.end_file()
    outcome = space.done(space.wal_job())
    assert outcome.runs == []
    assert Path(outcome.state_run or "").name == "0000000000000001-0000000000000005.state"
    assert state_of(space, outcome.state_run) == {("scope", b"a"): b"2", ("scope", b"b"): b"2"}


def test_deletions_stay_unless_from_the_beginning(space: Workspace) -> None:
    space.wal.mutate("scope", b"a", b"1")
    space.wal.end_group()
    space.wal.end_file()
    first = merge_last(space)
    space.wal.mutate("scope", b"a", None)
    space.wal.mutate("scope", b"b", b"2")
    space.wal.end_group()
    space.wal.end_file()
    second = merge_last(space)
    assert state_of(space, second) == {("scope", b"a"): None, ("scope", b"b"): b"2"}
    space.wal.mutate("scope", b"c", None)
    space.wal.end_group()
    space.wal.end_file()
    third = merge_last(space)
    later = join(space, [second, third])
    assert state_of(space, later) == {("scope", b"a"): None, ("scope", b"b"): b"2", ("scope", b"c"): None}
    assert state_of(space, join(space, [first, later])) == {("scope", b"b"): b"2"}


def test_a_failed_join_does_not_take_its_input_along() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/state")
    path = write_state_run(disk, "/state", 1, 5, 0, [("scope", b"key", b"value")])
    for operation in ("read", "write", "sync", "name", "sync_directory"):
        disk.arm(operation)
        outcome = decode_outcome(run_merge_job(disk, encode_job(StateJob([path], "/state", 0, 0))))
        assert outcome.error is not None
        assert disk.paths() == [path]
        assert list(read_state_run(disk, path).items) == [("scope", b"key", b"value")]


def test_a_gap_between_state_runs_is_damage(space: Workspace) -> None:
    paths = []
    for _ in range(3):
        space.wal.mutate("scope", b"a", b"1")
        space.wal.end_group()
        space.wal.end_file()
        paths.append(merge_last(space))
    outcome = space.do(StateJob([paths[0], paths[2]], str(space.root / "state"), 0, 0))
    assert outcome.damage is not None


steps = st.lists(
    st.tuples(
        st.integers(1, 2),  # log
        st.integers(7, 8),  # producer
        st.sampled_from(["batch"] * 6 + ["marker", "epoch", "marker epoch"]),
        st.integers(1, 3),  # records
        st.integers(0, 5),  # 0: end of group, 1: end of file
        st.integers(0, 3000),  # clock
    ),
    max_size=60,
)


@settings(max_examples=60)
@given(steps, st.integers(1, 4), st.booleans())
def test_producers_as_by_straight_replay(
    todo: list[tuple[int, int, str, int, int, int]], files_per_merge: int, stepwise: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        space = Workspace(Path(directory))
        space.wal.mutate(LOGS, log_key(1), b"x")
        space.wal.mutate(LOGS, log_key(2), b"x")
        expected: dict[tuple[int, int], Producer] = {}
        pending: list[tuple[str, tuple[int, int], int, int, int, int]] = []
        epochs: dict[tuple[int, int], int] = {}
        sequences: dict[tuple[int, int], int] = {}

        def end_group(time_ms: int) -> None:
            space.wal.end_group(time_ms)
            for kind, key, epoch, sequence, count, base in pending:
                producer = expected.setdefault(key, Producer(epoch))
                if kind == "marker":
                    producer.replay_marker(epoch, time_ms)
                else:
                    producer.replay(epoch, sequence, count, base, time_ms)
            pending.clear()

        for log, producer_id, kind, count, end, time_ms in todo:
            key = (log, producer_id)
            if "epoch" in kind:
                epochs[key] = epochs.get(key, 0) + 1
                sequences[key] = 0
            epoch = epochs.setdefault(key, 0)
            sequence = sequences.setdefault(key, 0)
            if "marker" in kind:
                base = space.wal.mark(log, producer_id, epoch, commit=True)
                pending.append(("marker", key, epoch, 0, 0, base))
            else:
                records = [(i, 1, b"k", b"v", ()) for i in range(count)]
                batch = encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
                pending.append(("batch", key, epoch, sequence, count, space.wal.append(log, batch)))
                sequences[key] = sequence + count
            if end < 2:
                end_group(time_ms)
            if end == 0:
                space.wal.end_file()
        end_group(1)
        space.wal.end_file()
        inputs = space.wal.inputs
        paths: list[str] = []
        for first in range(0, len(inputs), files_per_merge):
            job = space.wal_job(wal=inputs[first : first + files_per_merge])
            paths.append(space.done(job).state_run or "")
        if stepwise:  # joining in any grouping gives the same
            while len(paths) > 2:
                paths[-2:] = [join(space, paths[-2:])]
        state = state_of(space, join(space, paths))
        found = {key: decode_producer(value or b"") for (scope, key), value in state.items() if scope == PRODUCERS}
        assert found == {pair_key(*key): producer for key, producer in expected.items()}


def add_producer(space: Workspace, log: int, producer_id: int, time_ms: int) -> None:
    space.wal.append(
        log, encode_batch([(0, 1, b"k", b"v", ())], producer_id=producer_id, producer_epoch=0, base_sequence=0)
    )
    space.wal.end_group(time_ms)


def producers_in(space: Workspace, path: str) -> set[bytes]:
    return {key for scope, key in state_of(space, path) if scope == PRODUCERS}


def test_producers_of_deleted_logs_go(space: Workspace) -> None:
    space.wal.mutate(LOGS, log_key(1), b"x")
    space.wal.mutate(LOGS, log_key(2), b"x")
    add_producer(space, 1, 7, 10)
    add_producer(space, 2, 7, 10)
    space.wal.end_file()
    first = merge_last(space)
    assert producers_in(space, first) == {pair_key(1, 7), pair_key(2, 7)}
    add_producer(space, 1, 8, 10)
    space.wal.mutate(LOGS, log_key(1), None)
    space.wal.end_group()
    space.wal.end_file()
    second = merge_last(space)
    assert producers_in(space, second) == set()
    assert producers_in(space, join(space, [first, second])) == {pair_key(2, 7)}


def test_deletion_reaches_over_a_join_of_later_runs(space: Workspace) -> None:
    paths: list[str] = []
    space.wal.mutate(LOGS, log_key(1), b"x")
    for deletes in (False, False, True, False):
        add_producer(space, 1, 7, 10) if not deletes and len(paths) < 2 else None
        if deletes:
            space.wal.mutate(LOGS, log_key(1), None)
        space.wal.end_group()
        space.wal.end_file()
        paths.append(merge_last(space))
    later = join(space, paths[1:])
    assert producers_in(space, later) == set()
    assert state_of(space, join(space, [paths[0], later])) == {}


def test_silent_producers_expire_unless_in_a_transaction(space: Workspace) -> None:
    space.wal.mutate(LOGS, log_key(1), b"x")
    space.wal.mutate(TRANSACTIONS, pair_key(1, 9), b"0")
    for producer_id, time_ms in ((7, 10), (8, 100), (9, 10)):
        add_producer(space, 1, producer_id, time_ms)
    space.wal.end_file()
    first = merge_last(space)
    kept = join(space, [first], now_ms=1010, expiry_ms=1000)
    assert producers_in(space, kept) == {pair_key(1, 7), pair_key(1, 8), pair_key(1, 9)}
    kept = join(space, [first], now_ms=1011, expiry_ms=1000)
    assert producers_in(space, kept) == {pair_key(1, 8), pair_key(1, 9)}


def test_what_belongs_to_logs_that_do_not_exist_goes_at_the_beginning(space: Workspace) -> None:
    space.wal.mutate(LOGS, log_key(1), b"x")
    for log in (1, 2):
        space.wal.mutate(ABORTED, pair_key(log, 5), b"a")
        space.wal.mutate(TRANSACTIONS, pair_key(log, 5), b"t")
    space.wal.end_group()
    space.wal.end_file()
    assert set(state_of(space, merge_last(space))) == {
        (ABORTED, pair_key(1, 5)),
        (LOGS, log_key(1)),
        (TRANSACTIONS, pair_key(1, 5)),
    }


def test_sequences_outlive_dead_batches(space: Workspace) -> None:
    space.wal.mutate(LOGS, log_key(1), b"x")
    add_producer(space, 1, 7, 10)
    space.wal.end_file()
    outcome = space.done(space.wal_job(starts={1: 1}))
    assert outcome.runs == []
    state = state_of(space, outcome.state_run)
    assert state[PRODUCERS, pair_key(1, 7)] == encode_producer(Producer(0, 0, [(0, 0, 0)], 10))
