"""Runs into runs: the same batches, in fewer files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.local.merge import run_source
from mainstem.storage.local.merge.job import RunOutput
from mainstem.storage.local.runs.key_index import key_hash
from mainstem.wire.record_batch import read_header
from tests.support.storage.wal_builder import Workspace, plain_batch


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def make_runs(space: Workspace, rounds: list[list[tuple[int, int]]], **changes: object) -> list[RunOutput]:
    """One merge of the write-ahead log per round."""
    outputs: list[RunOutput] = []
    for steps in rounds:
        for log, size in steps:
            space.wal.append(log, plain_batch(size, 1 + size % 3))
            space.wal.end_group()
        space.wal.end_file()
        outputs += space.done(space.wal_job(wal=[space.wal.inputs[-1]], **changes)).runs
    return outputs


rounds = st.lists(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 500)), min_size=1, max_size=15), max_size=5)


@settings(max_examples=20)
@given(rounds, st.sampled_from([200, 1000, 1 << 16]), st.sampled_from([1, 2000, 1 << 30]), st.data())
def test_same_content(steps: list[list[tuple[int, int]]], block: int, run: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        space = Workspace(Path(directory))
        inputs = make_runs(space, steps, block_bytes=600)
        logs = sorted(space.wal.expected)
        deleted = data.draw(st.sets(st.sampled_from(logs), max_size=1)) if logs else set()
        starts = {log: data.draw(st.integers(0, space.wal.nexts[log] + 1)) for log in logs if log % 2}
        classes = {log: 1 for log in logs if log > 3}
        job = space.runs_job(
            inputs,
            block_bytes=block,
            run_bytes_max=run,
            deleted=sorted(deleted),
            starts=starts,
            classes=classes,
            tier=4,
        )
        outcome = space.done(job)
        alive = {
            log: [batch for batch in batches if read_header(batch).next_offset > starts.get(log, 0)]
            for log, batches in space.wal.expected.items()
            if log not in deleted
        }
        alive = {log: batches for log, batches in alive.items() if batches}
        assert space.content(outcome.runs) == alive
        assert all(output.tier == 4 for output in outcome.runs)
        for output in outcome.runs:
            index = space.load(output.path)
            assert {classes.get(log, 0) for log in index.logs} == {output.retention_class}
            for slot, log in enumerate(index.logs):
                assert index.nexts[slot] <= space.wal.nexts[log]
                for place in index.blocks(slot):
                    assert index.block_sizes[place] <= block or index.block_batches[place] == 1 or block < 600


def test_small_blocks_become_larger_ones(space: Workspace) -> None:
    inputs = make_runs(space, [[(1, 10)] for _ in range(20)])
    outcome = space.done(space.runs_job(inputs))
    index = space.load(outcome.runs[0].path)
    assert list(index.block_batches) == [20]
    assert space.content(outcome.runs) == space.wal.expected


def test_order_of_inputs_is_by_offset(space: Workspace) -> None:
    inputs = make_runs(space, [[(1, 10), (2, 10)], [(1, 10)], [(2, 10)]])
    outcome = space.done(space.runs_job([inputs[2], inputs[1], inputs[0]]))
    assert space.content(outcome.runs) == space.wal.expected


def test_overlapping_inputs_are_damage(space: Workspace) -> None:
    inputs = make_runs(space, [[(1, 10), (2, 10)]])
    outcome = space.do(space.runs_job([inputs[0], inputs[0]]))
    assert outcome.damage is not None
    assert outcome.damage.logs == [1]


def test_adopted_run_is_an_input_too(space: Workspace) -> None:
    for _ in range(3):
        space.wal.append(1, plain_batch(MergeLimits().large_batch_bytes))
        space.wal.append(2, plain_batch(10))
        space.wal.end_group()
    space.wal.end_file()
    adopted = space.done(space.wal_job()).runs
    assert adopted[0].adopted is not None
    outcome = space.done(space.runs_job(adopted))
    assert space.content(outcome.runs) == space.wal.expected


def test_reads_are_bounded(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_runs(space, [[(log, 300) for log in range(1, 30)] for _ in range(3)])
    sizes: list[int] = []
    original = run_source.RunSource._read_chunk

    def spy(source: run_source.RunSource, block: int) -> None:
        original(source, block)
        sizes.append(len(source._chunk))

    monkeypatch.setattr(run_source.RunSource, "_read_chunk", spy)
    outcome = space.done(space.runs_job(inputs, limits=MergeLimits(run_chunk_bytes=2000)))
    assert space.content(outcome.runs) == space.wal.expected
    assert max(sizes) <= 2000
    assert len(sizes) < 30, "blocks are read in stretches"


def test_wrong_run_is_damage(space: Workspace) -> None:
    inputs = make_runs(space, [[(1, 10)]])
    job = space.runs_job(inputs)
    job.runs[0].id = 99
    outcome = space.do(job)
    assert outcome.damage is not None


def test_key_tables_are_made_anew(space: Workspace) -> None:
    inputs = make_runs(space, [[(1, 9)] * 3, [(1, 9)] * 2])
    assert not space.load(inputs[0].path).is_key_indexed(1)
    outcome = space.done(space.runs_job(inputs, key_indexed=[1]))
    index = space.load(outcome.runs[0].path)
    assert index.key_lookup(space.disk.open(outcome.runs[0].path), 1, key_hash(b"k0")) == [0, 1, 2, 3, 4]


def test_nothing_alive_is_no_run(space: Workspace) -> None:
    inputs = make_runs(space, [[(1, 10), (2, 10)]])
    outcome = space.done(space.runs_job(inputs, deleted=[1], starts={2: space.wal.nexts[2]}))
    assert outcome.runs == []
