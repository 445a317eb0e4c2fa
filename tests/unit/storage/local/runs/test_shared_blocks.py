"""A batch that several logs have is stored once in a run, and every log reads it with offsets of its own."""

from __future__ import annotations

import random
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.local.merge.job import CompactionRule, RunOutput
from mainstem.storage.local.runs.key_index import key_hash
from mainstem.storage.local.runs.needed_blocks import NeededBlocks, stored_bytes
from mainstem.wire.record_batch import read_header
from tests.support.storage.wal_builder import Workspace, plain_batch

Content = dict[int, list[bytes]]


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def fan_out(space: Workspace, logs: range, count: int, size: int = 100) -> None:
    """Batches of different sizes, each in its own group, for all of these logs."""
    for number in range(count):
        space.wal.append(logs[0], plain_batch(size + number % 7, 1 + number % 3))
        for log in logs[1:]:
            space.wal.refer(log, 0)
        space.wal.end_group()


def merged(space: Workspace, **changes: object) -> list[RunOutput]:
    space.wal.end_file()
    return space.done(space.wal_job(wal=[space.wal.inputs[-1]], **changes)).runs


def alive(content: Content, starts: dict[int, int]) -> Content:
    """Without batches below the start of their log."""
    kept = {
        log: [batch for batch in batches if read_header(batch).next_offset > starts.get(log, 0)]
        for log, batches in content.items()
    }
    return {log: batches for log, batches in kept.items() if batches}


def data_bytes(space: Workspace, outputs: list[RunOutput]) -> int:
    """Bytes of all blocks, and a check that each of them is there once."""
    total = 0
    for output in outputs:
        index = space.load(output.path)
        stored = sorted(set(zip(index.block_positions, index.block_sizes, strict=True)))
        assert all(at + size <= after for (at, size), (after, _) in zip(stored, stored[1:], strict=False))
        assert stored_bytes(index) == sum(size for _, size in stored)
        total += stored_bytes(index)
    return total


# From the write-ahead log


def test_one_copy_for_all_logs(space: Workspace) -> None:
    fan_out(space, range(1, 101), 60)
    outputs = merged(space)
    assert space.content(outputs) == space.wal.expected
    assert data_bytes(space, outputs) == sum(map(len, space.wal.expected[1]))
    assert outputs[0].bytes < 4 * sum(map(len, space.wal.expected[1]))


def test_logs_with_other_offsets_share_too(space: Workspace) -> None:
    for log in range(2, 50):
        for _ in range(log % 4):
            space.wal.append(log, plain_batch(10))
    space.wal.end_group()
    fan_out(space, range(1, 50), 60)
    outputs = merged(space)
    assert space.content(outputs) == space.wal.expected
    own = sum(len(batches[0]) * (log % 4) for log, batches in space.wal.expected.items() if log > 1)
    assert data_bytes(space, outputs) == own + sum(map(len, space.wal.expected[1]))
    index = space.load(outputs[0].path)
    assert any(index.block_foreign)
    assert not any(index.block_foreign[block] for block in index.blocks(index.find(1))), "these are its own offsets"


def test_without_references_nothing_changes(space: Workspace) -> None:
    space.wal.append(1, plain_batch(100))
    space.wal.append(2, plain_batch(100))
    space.wal.end_group()
    (output,) = merged(space)
    assert not space.load(output.path).is_shared
    assert Path(output.path).read_bytes()[-20:-18] == b"\1\0", "an older program can read it"


def test_only_one_log_is_left(space: Workspace) -> None:
    fan_out(space, range(1, 4), 20)
    outputs = merged(space, deleted=[1, 3])
    assert space.content(outputs) == {2: space.wal.expected[2]}
    assert not space.load(outputs[0].path).is_shared


def test_the_log_that_was_written_to_goes(space: Workspace) -> None:
    fan_out(space, range(1, 30), 40)
    outputs = merged(space, deleted=[1])
    assert space.content(outputs) == {log: space.wal.expected[log] for log in range(2, 30)}
    assert data_bytes(space, outputs) == sum(map(len, space.wal.expected[1]))


def test_logs_that_were_consumed_to_different_offsets_share(space: Workspace) -> None:
    fan_out(space, range(1, 201), 300)
    end = space.wal.nexts[2]
    starts = {log: random.Random(log).randrange(end) for log in range(2, 201)}
    outputs = merged(space, starts=starts, block_bytes=4096)
    assert alive(space.content(outputs), starts) == alive(space.wal.expected, starts)
    once = sum(map(len, space.wal.expected[1]))
    assert data_bytes(space, outputs) <= 1.1 * once
    # Of what is dead, no more stays than the beginning of a block.
    for output in outputs:
        index = space.load(output.path)
        for slot, log in enumerate(index.logs):
            assert index.block_nexts[index.blocks(slot).start] > starts.get(log, 0)


def test_two_exchanges_and_direct_messages(space: Workspace) -> None:
    """Logs of two fan-outs, one of them of both, and some that get batches of their own in between."""
    for number in range(400):
        if number % 2:
            logs = [1, *range(10, 60), *range(80, 90)]
        else:
            logs = [2, *range(50, 90)]
        space.wal.append(logs[0], plain_batch(150))
        for log in logs[1:]:
            space.wal.refer(log, 0)
        if number % 40 == 0:
            space.wal.append(15, plain_batch(20))
            space.wal.append(85, plain_batch(20))
        space.wal.end_group()
    outputs = merged(space)
    assert space.content(outputs) == space.wal.expected
    once = sum(map(len, space.wal.expected[1])) + sum(map(len, space.wal.expected[2]))
    # Once for each fan-out, once for logs of both, and for the two with batches of their own.
    assert data_bytes(space, outputs) < 5 * once


def test_little_that_is_shared_among_much_that_is_not_is_copied(space: Workspace) -> None:
    for _ in range(50):
        space.wal.append(1, plain_batch(50))
        space.wal.refer(2, 0)
        space.wal.append(2, plain_batch(50))
        space.wal.append(1, plain_batch(50))
        space.wal.end_group()
    outputs = merged(space)
    assert space.content(outputs) == space.wal.expected
    assert len(space.load(outputs[0].path).block_firsts) == 2


def test_large_batches_among_others_are_shared(space: Workspace) -> None:
    for _ in range(10):
        space.wal.append(1, plain_batch(3 * MergeLimits().shared_bytes_min))
        for log in range(2, 20):
            space.wal.refer(log, 0)
            space.wal.append(log, plain_batch(50))
        space.wal.end_group()
    outputs = merged(space)
    assert space.content(outputs) == space.wal.expected
    assert data_bytes(space, outputs) < 2 * sum(map(len, space.wal.expected[1]))


def test_large_batches_for_different_logs_are_stored_once_each(space: Workspace) -> None:
    rng = random.Random(3)
    for _ in range(40):
        space.wal.append(1, plain_batch(5000))
        for log in rng.sample(range(2, 60), 25):
            space.wal.refer(log, 0)
        space.wal.end_group()
    once = sum(map(len, space.wal.expected[1]))
    outputs = merged(space)
    for _ in range(3):
        assert space.content(outputs) == space.wal.expected
        assert data_bytes(space, outputs) <= 1.2 * once
        outputs = space.done(space.runs_job(outputs)).runs


def test_batches_larger_than_a_block(space: Workspace) -> None:
    fan_out(space, range(1, 5), 5, 5000)
    outputs = merged(space, block_bytes=2000)
    assert space.content(outputs) == space.wal.expected
    assert data_bytes(space, outputs) == sum(map(len, space.wal.expected[1]))


def test_each_run_of_a_series_has_a_copy(space: Workspace) -> None:
    fan_out(space, range(1, 10), 100, 500)
    fan_out(space, range(20, 30), 100, 500)
    outputs = merged(space, run_bytes_max=30_000, block_bytes=4000)
    assert len(outputs) > 2
    assert space.content(outputs) == space.wal.expected


def test_retention_classes_do_not_share_a_run(space: Workspace) -> None:
    fan_out(space, range(1, 20), 50)
    outputs = merged(space, classes=dict.fromkeys(range(10, 20), 3))
    assert [output.retention_class for output in outputs] == [0, 3]
    assert space.content(outputs) == space.wal.expected
    assert data_bytes(space, outputs) == 2 * sum(map(len, space.wal.expected[1]))


def test_a_log_with_a_key_index_has_blocks_of_its_own(space: Workspace) -> None:
    space.wal.append(5, plain_batch(10))
    space.wal.end_group()
    fan_out(space, range(1, 9), 50)
    (output,) = merged(space, key_indexed=[5])
    assert space.content([output]) == space.wal.expected
    index = space.load(output.path)
    first = space.wal.nexts[1]
    assert index.key_lookup(space.disk.open(output.path), 5, key_hash(b"k0"))[:3] == [0, 1, 2]
    assert index.nexts[index.find(5)] == first + 1


def test_blocks_reach_over_files(space: Workspace) -> None:
    for _ in range(3):
        fan_out(space, range(1, 20), 10)
        space.wal.end_file()
    outputs = space.done(space.wal_job()).runs
    assert space.content(outputs) == space.wal.expected
    assert data_bytes(space, outputs) == sum(map(len, space.wal.expected[1]))
    assert len(space.load(outputs[0].path).block_firsts) == 19


def test_memory_does_not_grow_with_references(space: Workspace) -> None:
    """A hundred thousand of them: one object each would be more than 16 MB."""
    fan_out(space, range(1, 1001), 100, 10)
    wal = space.wal.end_file()
    job = space.wal_job()
    tracemalloc.start()
    try:
        outputs = space.done(job).runs
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < wal.end + (8 << 20)
    assert data_bytes(space, outputs) == sum(map(len, space.wal.expected[1]))


# Runs into runs


def test_runs_become_one_and_share_still(space: Workspace) -> None:
    inputs = []
    for _ in range(8):
        fan_out(space, range(1, 60), 20)
        inputs += merged(space)
    outputs = space.done(space.runs_job(inputs)).runs
    assert space.content(outputs) == space.wal.expected
    assert data_bytes(space, outputs) == sum(map(len, space.wal.expected[1]))
    assert len(space.load(outputs[0].path).block_firsts) <= 3 * 59, "small blocks have become larger ones"
    again = space.done(space.runs_job(outputs)).runs
    assert space.content(again) == space.wal.expected
    assert data_bytes(space, again) == sum(map(len, space.wal.expected[1]))


def test_half_of_the_logs_are_deleted(space: Workspace) -> None:
    fan_out(space, range(1, 60), 50)
    inputs = merged(space)
    outputs = space.done(space.runs_job(inputs, deleted=list(range(1, 30)))).runs
    assert space.content(outputs) == {log: space.wal.expected[log] for log in range(30, 60)}
    assert data_bytes(space, outputs) == sum(map(len, space.wal.expected[1]))
    outputs = space.done(space.runs_job(outputs, deleted=list(range(1, 59)))).runs
    assert space.content(outputs) == {59: space.wal.expected[59]}
    assert not space.load(outputs[0].path).is_shared


def test_runs_of_logs_that_were_consumed_to_different_offsets(space: Workspace) -> None:
    inputs = []
    for _ in range(6):
        fan_out(space, range(1, 100), 40)
        starts = {log: space.wal.nexts[log] * (log % 9) // 10 for log in range(1, 100)}
        inputs += merged(space, starts=starts, block_bytes=8192)
    starts = {log: space.wal.nexts[log] * (log % 9) // 9 for log in range(1, 100)}
    outputs = space.done(space.runs_job(inputs, starts=starts, block_bytes=8192)).runs
    assert alive(space.content(outputs), starts) == alive(space.wal.expected, starts)
    assert data_bytes(space, outputs) < 5 * sum(map(len, space.wal.expected[1]))


def test_a_compacted_log_leaves_the_others_as_they_were(space: Workspace) -> None:
    space.wal.append(3, plain_batch(10))
    space.wal.end_group()
    fan_out(space, range(1, 9), 50)
    inputs = merged(space)
    rule = CompactionRule(1000, 1 << 40, 1 << 40)
    outcome = space.done(space.runs_job(inputs, compact={3: rule}))
    content = space.content(outcome.runs)
    assert outcome.records_removed > 50
    assert {log: batches for log, batches in content.items() if log != 3} == {
        log: batches for log, batches in space.wal.expected.items() if log != 3
    }
    index = space.load(outcome.runs[0].path)
    assert index.nexts[index.find(3)] == space.wal.nexts[3]


def test_a_key_index_that_is_asked_for_later(space: Workspace) -> None:
    space.wal.append(5, plain_batch(10))
    space.wal.end_group()
    fan_out(space, range(1, 9), 50)
    inputs = merged(space)
    outputs = space.done(space.runs_job(inputs, key_indexed=[5])).runs
    assert space.content(outputs) == space.wal.expected
    index = space.load(outputs[0].path)
    found = index.key_lookup(space.disk.open(outputs[0].path), 5, key_hash(b"k0"))
    assert found[:2] == [0, 1]
    assert len(found) == 51


steps = st.lists(
    st.tuples(
        st.integers(1, 3),  # the log that is written to
        st.sampled_from([10, 400, 1100]),  # value size
        st.integers(1, 3),  # records
        st.sets(st.integers(1, 12), max_size=12),  # logs that refer
        st.integers(0, 9),  # what else happens
    ),
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@given(steps, st.sampled_from([300, 3000, 1 << 16]), st.sampled_from([1, 9000, 1 << 30]), st.data())
def test_every_live_batch_is_found(steps: list[tuple], block: int, run: int, data: st.DataObject) -> None:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as directory:
        space = Workspace(Path(directory))
        limits = {"block_bytes": block, "run_bytes_max": run}
        starts: dict[int, int] = {}
        inputs: list[RunOutput] = []

        def facts() -> dict[str, object]:
            nexts = space.wal.nexts
            for log in sorted(nexts):
                if log % 2:
                    starts[log] = max(starts.get(log, 0), data.draw(st.integers(0, nexts[log])))
            return {"starts": dict(starts), "classes": {log: 1 for log in nexts if log > 9}, "key_indexed": [4]}

        for log, size, count, referring, choice in steps:
            space.wal.append(log, plain_batch(size, count))
            for other in sorted(referring):
                space.wal.refer(other, 0)
            space.wal.end_group()
            if choice == 0:
                inputs += merged(space, **limits, **facts())
        inputs += merged(space, **limits, **facts())
        assert alive(space.content(inputs), starts) == alive(space.wal.expected, starts)
        outputs = space.done(space.runs_job(inputs, **limits, **facts())).runs
        assert alive(space.content(outputs), starts) == alive(space.wal.expected, starts)
        data_bytes(space, outputs)
        for output in outputs:
            index = space.load(output.path)
            for slot, log in enumerate(index.logs):
                blocks = index.blocks(slot)
                if blocks:
                    assert index.block_nexts[blocks.start] > starts.get(log, 0)


# What is alive


def test_a_shared_block_is_needed_while_one_log_needs_it(space: Workspace) -> None:
    fan_out(space, range(1, 10), 200)
    (output,) = merged(space, block_bytes=4096)
    index = space.load(output.path)
    everything = stored_bytes(index)
    needed = NeededBlocks(index)
    assert needed.bytes == 0
    for slot in range(len(index.logs)):
        blocks = index.blocks(slot)
        needed.add(blocks.start + min(slot, 2), blocks.stop)
        assert needed.bytes == everything
    others = NeededBlocks(index)
    last = index.blocks(3)
    others.add(last.stop - 1, last.stop)
    others.add(last.stop, last.stop)
    assert others.bytes == index.block_sizes[last.stop - 1]
