"""WAL files into runs: every live batch is found once, in order, with equal bytes."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.local.runs.key_index import key_hash
from mainstem.wire.record_batch import decode_keys, read_header
from tests.support.storage.wal_builder import Workspace, plain_batch


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


operations = st.lists(
    st.tuples(
        st.integers(1, 6),  # log
        st.integers(0, 400),  # value size
        st.integers(1, 4),  # records
        st.integers(0, 9),  # what else happens
    ),
    max_size=60,
)


def build(space: Workspace, steps: list[tuple[int, int, int, int]]) -> None:
    in_group = 0
    for log, size, count, choice in steps:
        space.wal.append(log, plain_batch(size, count))
        in_group += 1
        if choice == 0:
            space.wal.refer(log + 10, in_group - 1)
        elif choice == 1:
            space.wal.refer(7, 0)
        elif choice == 2:
            space.wal.mutate("scope", bytes([log]), bytes([size % 256]))
        if choice in (3, 4, 5):
            space.wal.end_group()
            in_group = 0
        if choice == 5:
            space.wal.end_file()
    space.wal.end_group()
    space.wal.end_file()


@settings(max_examples=60, deadline=None)
@given(operations, st.sampled_from([300, 2000, 1 << 16]), st.sampled_from([1, 3000, 1 << 30]), st.data())
def test_every_live_batch_once(
    steps: list[tuple[int, int, int, int]], block: int, run: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        space = Workspace(Path(directory))
        build(space, steps)
        logs = sorted(space.wal.expected)
        deleted = data.draw(st.sets(st.sampled_from(logs), max_size=2)) if logs else set()
        starts = {log: data.draw(st.integers(0, space.wal.nexts[log])) for log in logs if log % 2}
        classes = {log: log % 3 for log in logs if log % 3}
        outcome = space.done(
            space.wal_job(
                block_bytes=block,
                run_bytes_max=run,
                deleted=sorted(deleted),
                starts=starts,
                classes=classes,
                output_directories=[space.runs, str(space.root / "more")],
            )
        )
        alive = {
            log: [batch for batch in batches if read_header(batch).next_offset > starts.get(log, 0)]
            for log, batches in space.wal.expected.items()
            if log not in deleted
        }
        alive = {log: batches for log, batches in alive.items() if batches}
        assert space.content(outcome.runs) == alive
        for number, output in enumerate(outcome.runs):
            assert output.id == 1 + number
            assert Path(output.path).parent.name == ("runs", "more")[number % 2]
            index = space.load(output.path)
            assert {classes.get(log, 0) for log in index.logs} == {output.retention_class}
            for slot in range(len(index.logs)):
                for place in index.blocks(slot):
                    assert index.block_sizes[place] <= block or index.block_batches[place] == 1
        assert not [name for name in space.files() if name.endswith(".tmp")]


def test_same_job_same_bytes(space: Workspace) -> None:
    build(space, [(random.Random(i).randrange(1, 9), i, 1, i % 10) for i in range(50)])
    first = space.done(space.wal_job())
    before = [Path(run.path).read_bytes() for run in first.runs]
    second = space.done(space.wal_job(first_run_id=1))
    assert [Path(run.path).read_bytes() for run in second.runs] == before


def test_blocks_are_about_block_bytes(space: Workspace) -> None:
    for _ in range(100):
        space.wal.append(1, plain_batch(100))
        space.wal.append(2, plain_batch(10))
    space.wal.end_group()
    space.wal.end_file()
    outcome = space.done(space.wal_job(block_bytes=1000))
    index = space.load(outcome.runs[0].path)
    sizes = [index.block_sizes[block] for block in index.blocks(index.find(1))]
    assert min(sizes[:-1]) > 500
    assert max(sizes) <= 1000


def test_run_sizes_are_bounded(space: Workspace) -> None:
    for log in range(1, 40):
        space.wal.append(log, plain_batch(1000))
        space.wal.append(99, plain_batch(1000))
    space.wal.end_group()
    space.wal.end_file()
    outcome = space.done(space.wal_job(run_bytes_max=10_000, block_bytes=2000))
    assert len(outcome.runs) >= 8
    assert space.content(outcome.runs) == space.wal.expected
    for output in outcome.runs:
        index = space.load(output.path)
        assert sum(index.bytes) <= 10_000
    slots = [(index, index.find(99)) for index in (space.load(run.path) for run in outcome.runs)]
    ranges = [(index.firsts[slot], index.nexts[slot]) for index, slot in slots if slot >= 0]
    assert len(ranges) > 2
    assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:], strict=False)), "one covers where the other ends"


# Adoption


def large(space: Workspace, log: int, count: int = 1) -> None:
    for _ in range(count):
        space.wal.append(log, plain_batch(MergeLimits().large_batch_bytes))


def test_large_batches_stay_where_they_are(space: Workspace) -> None:
    large(space, 1, 2)
    space.wal.append(2, plain_batch(10))
    space.wal.append(2, plain_batch(10))
    large(space, 1)
    space.wal.append(3, plain_batch(10))
    space.wal.end_group()
    large(space, 2)
    space.wal.append(3, plain_batch(10))
    space.wal.end_group()
    wal = space.wal.end_file(slack=100_000)
    before = Path(wal.path).read_bytes()[: wal.end]
    outcome = space.done(space.wal_job(deleted=[3], key_indexed=[2]))
    (output,) = outcome.runs
    assert (output.adopted, output.path) == (wal.generation, wal.path)
    after = Path(wal.path).read_bytes()
    assert after[: wal.end] == before
    assert len(after) == output.bytes
    expected = {log: batches for log, batches in space.wal.expected.items() if log != 3}
    assert space.content(outcome.runs) == expected
    index = space.load(output.path)
    assert [index.block_batches[block] for block in index.blocks(index.find(2))] == [2, 1], "adjacent in one body"
    file = space.disk.open(output.path)
    assert index.key_lookup(file, 2, key_hash(b"k0")) == [0, 1, 2]
    assert not index.is_key_indexed(1)
    # still a file of the write-ahead log, and adopting it again changes nothing
    space.done(space.wal_job(deleted=[3], key_indexed=[2], first_run_id=output.id))
    assert Path(wal.path).read_bytes() == after


def test_files_around_an_adopted_one_do_not_mix(space: Workspace) -> None:
    space.wal.append(1, plain_batch(10))
    space.wal.end_group()
    space.wal.end_file()
    large(space, 1)
    space.wal.end_group()
    space.wal.end_file()
    space.wal.append(1, plain_batch(10))
    space.wal.end_group()
    space.wal.end_file()
    outcome = space.done(space.wal_job())
    assert [output.adopted for output in outcome.runs] == [None, 2, None]
    assert space.content(outcome.runs) == space.wal.expected


def test_a_run_that_was_adopted_is_of_the_class_of_most_of_it(space: Workspace) -> None:
    large(space, 1)
    large(space, 2, 3)
    large(space, 3)
    space.wal.end_group()
    wal = space.wal.end_file()
    (output,) = space.done(space.wal_job(classes={2: 7, 3: 5})).runs
    assert (output.adopted, output.retention_class) == (wal.generation, 7)
    assert space.content([output]) == space.wal.expected
    # What is left of it when most has died is rewritten, each class into a run of its own.
    outcome = space.done(space.runs_job([output], deleted=[2], classes={2: 7, 3: 5}))
    assert [(run.adopted, run.retention_class) for run in outcome.runs] == [(None, 0), (None, 5)]
    assert space.content(outcome.runs) == {log: space.wal.expected[log] for log in (1, 3)}


@pytest.mark.parametrize("reason", ["reference", "small", "dead", "forbidden"])
def test_not_adopted(space: Workspace, reason: str) -> None:
    large(space, 1)
    if reason == "reference":
        space.wal.refer(2, 0)
    if reason == "dead":
        large(space, 2, 2)
    if reason == "small":
        for _ in range(300):
            space.wal.append(3, plain_batch(1000))
    space.wal.end_group()
    space.wal.end_file()
    deleted = [2] if reason == "dead" else []
    outcome = space.done(space.wal_job(deleted=deleted, adopt=reason != "forbidden"))
    assert all(output.adopted is None for output in outcome.runs)
    expected = {log: batches for log, batches in space.wal.expected.items() if log not in deleted}
    assert space.content(outcome.runs) == expected


# Key index


def test_keys_are_indexed_where_asked(space: Workspace) -> None:
    for _ in range(300):
        space.wal.append(1, plain_batch(10, 3))
        space.wal.append(2, plain_batch(10, 3))
    space.wal.end_group()
    space.wal.end_file()
    outcome = space.done(space.wal_job(key_indexed=[2, 5], run_bytes_max=50_000, block_bytes=5000))
    found: list[int] = []
    for output in outcome.runs:
        index = space.load(output.path)
        file = space.disk.open(output.path)
        if index.find(2) >= 0:
            assert index.is_key_indexed(2)
            found += index.key_lookup(file, 2, key_hash(b"k1"))
            assert index.key_lookup(file, 2, key_hash(b"absent")) == []
        assert not index.is_key_indexed(1)
    expected = [offset for batch in space.wal.expected[2] for offset, _, key, _ in decode_keys(batch) if key == b"k1"]
    assert found == expected
    assert len(expected) == 300


@pytest.mark.parametrize("adopted", [False, True])
def test_a_log_with_many_keys_has_several_tables(space: Workspace, adopted: bool) -> None:
    for _ in range(40):
        space.wal.append(1, plain_batch(10, 3))
    if adopted:
        large(space, 1, 2)
    space.wal.end_group()
    space.wal.end_file()
    limits = MergeLimits(key_table_entries_max=20)
    outcome = space.done(space.wal_job(key_indexed=[1], block_bytes=1000, limits=limits))
    (output,) = outcome.runs
    assert (output.adopted is not None) == adopted
    index = space.load(output.path)
    assert len(index.key_logs) > 3
    file = space.disk.open(output.path)
    assert index.key_lookup(file, 1, key_hash(b"k2")) == list(range(2, 120, 3))
    assert space.content(outcome.runs) == space.wal.expected
