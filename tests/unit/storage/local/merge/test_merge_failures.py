"""Damage is named, errors leave nothing behind, and no crash makes half a run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import pytest

from mainstem.model.errors import CorruptData
from mainstem.storage.local.frame import SECTOR_BYTES
from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.local.merge.job import MergeJob, MergeOutcome, StateJob, decode_outcome, encode_job
from mainstem.storage.local.merge.merge import run_merge_job
from mainstem.storage.local.runs.run_file import RunIndex
from mainstem.storage.local.runs.state_run import is_complete
from mainstem.storage.local.wal.stored_group import decode_group
from mainstem.storage.runtime.disk import Disk
from mainstem.testing.disk import Interrupted, SimulatedDisk
from tests.support.storage.wal_builder import Workspace, plain_batch


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def do(disk: Disk, job: MergeJob | StateJob) -> MergeOutcome:
    return decode_outcome(run_merge_job(disk, encode_job(job)))


def small_file(space: Workspace) -> None:
    space.wal.append(1, plain_batch(50))
    space.wal.refer(2, 0)
    space.wal.mutate("scope", b"key", b"value")
    space.wal.append(3, plain_batch(10))
    space.wal.end_group()
    space.wal.append(1, plain_batch(5))
    space.wal.end_group()
    space.wal.end_file()


def test_any_flipped_bit_of_a_wal_file_is_damage(space: Workspace) -> None:
    small_file(space)
    entry = space.wal.inputs[0]
    path = Path(entry.path)
    content = path.read_bytes()
    view = memoryview(content)
    ends: list[tuple[int, int]] = [(0, 56)]  # fields of the file header; the rest of its sector says nothing
    position = SECTOR_BYTES
    for sequence in (1, 2):
        group = decode_group(view, position, entry.generation, sequence)
        ends.append((position, group.frames[-1].end))
        position = group.end
    before = space.files()
    for first, end in ends:
        for at in range(first, end):
            damaged = bytearray(content)
            damaged[at] ^= 1 << at % 8
            path.write_bytes(damaged)
            outcome = space.do(space.wal_job())
            assert outcome.damage is not None, at
            assert outcome.damage.file == entry.path
            assert not outcome.runs
            assert space.files() == before
    path.write_bytes(content)
    assert space.do(space.wal_job()).damage is None


def test_damaged_batch_names_its_log(space: Workspace) -> None:
    small_file(space)
    path = Path(space.wal.inputs[0].path)
    content = bytearray(path.read_bytes())
    content[content.index(b"v" * 50)] ^= 1
    path.write_bytes(content)
    outcome = space.do(space.wal_job())
    assert outcome.damage is not None
    assert outcome.damage.logs == [1]


def test_cut_file_is_damage(space: Workspace) -> None:
    small_file(space)
    path = Path(space.wal.inputs[0].path)
    content = path.read_bytes()
    for size in (0, 100, 512, 600, len(content) - SECTOR_BYTES):
        path.write_bytes(content[:size])
        assert space.do(space.wal_job()).damage is not None


def test_any_flipped_bit_of_a_run_is_damage(space: Workspace) -> None:
    small_file(space)
    output = space.done(space.wal_job()).runs[0]
    path = Path(output.path)
    content = path.read_bytes()
    index = space.load(output.path)
    padding = set(range(index.block_positions[-1] + index.block_sizes[-1], len(content) - 64))
    first_footer_byte = int.from_bytes(content[-64:-56], "little")
    padding -= set(range(first_footer_byte, len(content)))
    before = space.files()
    for at in range(len(content)):
        if at in padding:
            continue
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        outcome = space.do(space.runs_job([output]))
        assert outcome.damage is not None, at
        assert outcome.damage.file == output.path
        assert space.files() == before


def test_damaged_state_run_is_damage(space: Workspace) -> None:
    small_file(space)
    state_run = space.done(space.wal_job()).state_run
    assert state_run is not None
    path = Path(state_run)
    content = path.read_bytes()
    before = space.files()
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        outcome = space.do(StateJob([state_run], str(space.root / "state"), 1, 1))
        assert outcome.damage is not None
        assert space.files() == before


# Errors of the disk


def simulated(space: Workspace) -> tuple[SimulatedDisk, MergeJob]:
    """A disk with three files, the second of which will be adopted; and the job."""
    small_file(space)
    space.wal.append(1, plain_batch(MergeLimits().large_batch_bytes))
    space.wal.end_group()
    space.wal.end_file(slack=5000)
    small_file(space)
    disk = SimulatedDisk()
    for name in ("/wal", "/runs", "/more", "/state"):
        disk.make_directory(name)
    disk.sync_directory("/")
    job = space.wal_job(output_directories=["/runs", "/more"], state_directory="/state", key_indexed=[1])
    for entry in job.wal:
        content = Path(entry.path).read_bytes()
        entry.path = f"/wal/{Path(entry.path).name}"
        file = disk.open(entry.path, create=True)
        file.write([content], 0)
        file.sync()
    disk.sync_directory("/wal")
    return disk, job


def check_wal(disk: SimulatedDisk, job: MergeJob) -> None:
    """The files are still what they were, up to their ends."""
    for entry in job.wal:
        content = memoryview(disk.content(entry.path))
        position = SECTOR_BYTES
        for sequence in range(entry.first, entry.last + 1):
            position = decode_group(content, position, entry.generation, sequence).end
        assert position == entry.end


@pytest.mark.parametrize("operation", ["read", "write", "sync", "name", "sync_directory"])
def test_input_output_error_leaves_nothing_behind(space: Workspace, operation: str) -> None:
    disk, job = simulated(space)
    before = disk.paths()
    for after in range(1, 200):
        disk.arm(operation, after)  # type: ignore[arg-type]
        outcome = do(disk, job)
        if not disk.faults:
            assert after > 1
            break
        disk.faults.clear()
        assert outcome.error is not None
        assert not outcome.no_space
        assert (outcome.runs, outcome.state_run) == ([], None)
        assert disk.paths() == before
        check_wal(disk, job)
    disk.heal()
    assert [run.adopted for run in do(disk, job).runs] == [None, 2, None]


def test_full_disk_is_said_and_leaves_nothing_behind(space: Workspace) -> None:
    disk, job = simulated(space)
    before = disk.paths()
    used = disk.used
    for room in range(0, 100_000, 1500):
        disk.capacity = used + room
        outcome = do(disk, job)
        if outcome.error is None:
            assert room
            return
        assert outcome.no_space
        assert disk.paths() == before
        check_wal(disk, job)
    pytest.fail("never enough room")


def test_crash_anywhere_leaves_no_run_or_a_whole_one(space: Workspace) -> None:
    disk, job = simulated(space)
    operations = disk.copy()
    before = operations.operations
    assert do(operations, job).error is None
    total = operations.operations - before
    whole = 0
    for at in range(1, total + 2):
        for seed in range(4):
            victim = disk.copy()
            victim.interrupt_at = at
            with contextlib.suppress(Interrupted):
                do(victim, job)
            after = victim.crash(Random(seed))
            check_wal(after, job)
            for path in after.paths():
                if path.endswith(".run"):
                    RunIndex.load(after.open(path))  # under its final name it is whole
                    whole += 1
                elif path.endswith(".state"):
                    assert is_complete(after, path)
                elif path.endswith(".wal"):
                    with contextlib.suppress(CorruptData):
                        RunIndex.load(after.open(path))
            # leftovers are in nobody's way
            outcome = do(after, job)
            assert outcome.error is None
            assert outcome.damage is None
            for run in outcome.runs:
                RunIndex.load(after.open(run.path))
    assert whole


def test_what_is_done_survives_power_loss(space: Workspace) -> None:
    disk, job = simulated(space)
    for seed in range(20):
        victim = disk.copy()
        outcome = do(victim, job)
        assert len(outcome.runs) == 3
        after = victim.crash(Random(seed))
        for run in outcome.runs:
            assert RunIndex.load(after.open(run.path)).id == run.id
            assert after.content(run.path) == victim.content(run.path)
        assert outcome.state_run is not None
        assert is_complete(after, outcome.state_run)
