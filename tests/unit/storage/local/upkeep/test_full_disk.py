"""A full disk refuses appends and loses nothing; what is deleted makes room again, and a start needs none."""

import asyncio
from random import Random

import pytest

from mainstem.model.errors import StorageFull
from mainstem.storage.contract import (
    Append,
    Budget,
    Commit,
    Committed,
    CreateLog,
    DeleteLog,
    Edge,
    LogConfig,
    MoveFloor,
    Mutation,
)
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.local.settings import EngineSettings
from mainstem.testing.disk import SimulatedDisk
from mainstem.wire.record_batch import encode_batch, encode_marker
from tests.support.storage.batches import batch
from tests.support.storage.simulated_node import Node

FILE_BYTES = 64 << 10
FIRST, SECOND = 1, 2
RETAINED = LogConfig(retention_ms=1 << 50)
"""With a retention, so that its records could go early, and one that takes nothing in time."""


def test_appends_are_refused_before_the_disk_is_full_to_the_last_byte() -> None:
    async def main() -> None:
        runtime = local_runtime(asyncio.get_running_loop())
        disk = SimulatedDisk()
        disk.capacity = 24 * FILE_BYTES
        settings = EngineSettings(data_directory="/data", wal_file_bytes=FILE_BYTES, disk_reserve_bytes=0)
        engine = LocalEngine.open(disk=disk, runtime=runtime, settings=settings)
        failures: list[BaseException] = []
        engine.on_failure(failures.append)
        # No maintenance comes in time.
        await engine.alter([CreateLog(1, LogConfig())])
        taken = 0
        while True:
            (result,) = await engine.commit([Commit(appends=[Append(1, batch(bytes(4096)))])])
            if not isinstance(result, Committed):
                break
            taken += 1
        assert isinstance(result, StorageFull), result
        assert taken > 100
        for number in range(50):  # acknowledgements and the like still have room
            (result,) = await engine.commit([Commit(state=[Mutation("s", b"%d" % number, bytes(100))])])
            assert isinstance(result, Committed), result
        assert (await engine.read(1, taken - 1, 1)).batches
        assert failures == []
        await engine.close()
        runtime.close()

    asyncio.run(main())


def full_node(config: LogConfig = RETAINED) -> Node:
    """A node whose disk takes no more appends, with two logs of which each file and run has a part."""
    node = Node(wal_file_bytes=FILE_BYTES, disk_reserve_bytes=FILE_BYTES)
    node.disk.capacity = 24 * FILE_BYTES
    node.create(FIRST, SECOND, config=config)
    while True:
        (result,) = node.wait(node.engine.commit([Commit(appends=[Append(FIRST, batch(bytes(4096)))])]))
        if not isinstance(result, Committed):
            assert isinstance(result, StorageFull), result
            break
        node.engine.commit([Commit(appends=[Append(SECOND, batch(bytes(1024)))])])
        node.settle()
    node.settle()
    return node


def restarted(node: Node) -> Node:
    """Another engine on what a killed one has left."""
    return Node(node.disk.restart(Random(1)), wal_file_bytes=FILE_BYTES, disk_reserve_bytes=FILE_BYTES)


def take_all_room(node: Node) -> None:
    """Somebody else fills the disk to its last byte."""
    node.disk.capacity = node.disk.used


def is_appendable(node: Node) -> bool:
    (result,) = node.wait(node.engine.commit([Commit(appends=[Append(FIRST, batch(b"again"))])]))
    return isinstance(result, Committed)


def maintain(node: Node, times: int = 1) -> None:
    for _ in range(times):
        node.wait(node.engine.maintain(Budget()))
        node.settle()
        node.runtime.pass_time(1_000)
        node.settle()


def test_a_full_disk_deletes_nothing_before_its_time() -> None:
    node = full_node()
    ends = {log: node.wait(node.engine.offset_at(log, Edge.END)).offset for log in (FIRST, SECOND)}
    maintain(node, 20)
    assert not is_appendable(node)
    for log, end in ends.items():
        assert node.wait(node.engine.offset_at(log, Edge.START)).offset == 0
        assert node.wait(node.engine.offset_at(log, Edge.END)).offset == end
    assert node.engine.metrics()["records_deleted_early_total"] == 0


def test_what_is_deleted_makes_room_within_seconds() -> None:
    node = full_node()
    for log in (FIRST, SECOND):
        node.wait(node.engine.trim(log, 1 << 40))
    maintain(node, 3)
    assert is_appendable(node)
    assert not node.engine.files.runs
    assert node.disk.used < 6 * FILE_BYTES


def test_what_queues_have_settled_makes_room_and_nothing_else_of_them() -> None:
    node = full_node(LogConfig(retention_ms=1 << 50, acknowledged="hold"))
    end = node.wait(node.engine.offset_at(FIRST, Edge.END)).offset
    node.wait(node.engine.alter([MoveFloor(FIRST, end - 1), MoveFloor(SECOND, 1)]))
    maintain(node, 12)
    assert is_appendable(node)
    assert node.wait(node.engine.offset_at(FIRST, Edge.START)).offset == end - 1
    assert node.wait(node.engine.offset_at(SECOND, Edge.START)).offset == 1


def test_what_queues_have_settled_is_held_while_there_is_room() -> None:
    node = Node()
    node.create(FIRST, config=LogConfig(retention_ms=1 << 50, acknowledged="hold"))
    node.append(FIRST, "settled", records=10)
    node.wait(node.engine.alter([MoveFloor(FIRST, 10)]))
    maintain(node, 10)
    assert node.wait(node.engine.offset_at(FIRST, Edge.START)).offset == 0


def test_dead_runs_go_although_no_merge_finds_room() -> None:
    node = full_node()
    take_all_room(node)
    runs = len(node.engine.files.runs)
    assert runs > 2
    for log in (FIRST, SECOND):
        last = max(run.ages[1] for run in node.engine.files.runs.values())
        oldest = next(run for run in node.engine.files.runs.values() if run.ages[1] < last)
        node.wait(node.engine.trim(log, oldest.index.nexts[oldest.index.find(log)]))
    node.wait(node.engine.maintain(Budget()))
    node.settle()
    assert len(node.engine.files.runs) < runs
    assert node.disk.capacity > node.disk.used


def test_a_run_that_is_half_dead_is_rewritten_within_the_reserve() -> None:
    node = full_node()
    used = node.disk.used
    node.wait(node.engine.alter([DeleteLog(FIRST)]))
    maintain(node, 12)
    assert node.disk.used < used / 2
    assert node.wait(node.engine.read(SECOND, 0, 1)).batches
    assert not node.engine.is_full


def test_an_engine_starts_without_a_free_byte_and_serves_reads_and_deletions() -> None:
    node = full_node()
    end = node.wait(node.engine.offset_at(FIRST, Edge.END)).offset
    take_all_room(node)
    for _ in range(30):
        node = restarted(node)
        assert node.engine.is_full
        assert node.wait(node.engine.offset_at(FIRST, Edge.END)).offset == end
        assert node.wait(node.engine.read(FIRST, end - 1, 1)).batches
        node.commit(Commit(state=[Mutation("s", b"key", b"value")]))
    for log in (FIRST, SECOND):
        node.wait(node.engine.trim(log, 1 << 40))
    maintain(node, 5)
    assert is_appendable(node)


def test_state_is_refused_before_it_takes_what_deletion_and_the_next_start_need() -> None:
    node = full_node()
    take_all_room(node)
    failures: list[BaseException] = []
    node.engine.on_failure(failures.append)
    node.wait(node.engine.maintain(Budget()))
    for number in range(3_000):
        commit = Commit(state=[Mutation("s", b"%d" % number, bytes(200))])
        (result,) = node.wait(node.engine.commit([commit]))
        if isinstance(result, StorageFull):
            break
    assert isinstance(result, StorageFull), "state was taken without end"
    assert failures == []
    node = restarted(node)
    for log in (FIRST, SECOND):
        node.wait(node.engine.trim(log, 1 << 40))
    maintain(node, 5)
    assert is_appendable(node)
    node.commit(Commit(state=[Mutation("s", b"key", b"value")]))


def test_a_merge_that_found_no_room_is_tried_as_soon_as_there_is_some() -> None:
    node = full_node()
    take_all_room(node)
    node.engine.proofs.seal_active()
    for _ in range(5):
        maintain(node)
    sealed = len(node.engine.backlog.files)
    assert sealed
    node.disk.capacity = 1 << 40
    node.wait(node.engine.maintain(Budget()))
    node.settle()
    assert len(node.engine.backlog.files) < sealed


# Early deletion, where the operator wants it


def test_early_deletion_is_said_at_the_start_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(wal_file_bytes=FILE_BYTES, disk_reserve_bytes=FILE_BYTES, disk_high_mark=0.5)
    assert "disk_high_mark is on: when 50 % of the disk are in use" in caplog.text
    node.create(FIRST, config=RETAINED)
    fill_files(node, 6)
    node.disk.capacity = node.disk.used * 3 // 2
    maintain(node, 10)
    start = node.wait(node.engine.offset_at(FIRST, Edge.START)).offset
    assert start > 0
    metrics = node.engine.metrics()
    assert metrics["disk_high_mark"] == 0.5
    assert metrics["records_deleted_early_total"] >= start


def test_early_deletion_is_off_by_default(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    assert node.settings.disk_high_mark is None
    assert node.engine.metrics()["disk_high_mark"] == 0
    assert "disk_high_mark" not in caplog.text


def test_early_deletion_ends_before_a_transaction() -> None:
    node = Node(wal_file_bytes=FILE_BYTES, disk_reserve_bytes=FILE_BYTES, disk_high_mark=0.1)
    node.create(FIRST, config=RETAINED)
    node.append(FIRST, "plain", records=10)
    record = [(0, 1_000, b"k", b"in a transaction", ())]
    written = encode_batch(record, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    node.commit(Commit(appends=[Append(FIRST, bytearray(written))]))
    fill_files(node, 3)
    marker = encode_marker(7, 0, commit=True, timestamp_ms=5)
    node.commit(Commit(appends=[Append(FIRST, bytearray(marker))]))
    fill_files(node, 3)
    node.disk.capacity = 2 * node.disk.used
    maintain(node, 20)
    assert node.wait(node.engine.offset_at(FIRST, Edge.START)).offset == 10


def test_early_deletion_takes_whole_batches_below_a_floor() -> None:
    node = Node(wal_file_bytes=FILE_BYTES, disk_reserve_bytes=FILE_BYTES, disk_high_mark=0.1)
    node.create(FIRST, config=LogConfig(retention_ms=1 << 50, acknowledged="hold"))
    node.append(FIRST, "first", records=10)
    node.append(FIRST, "second", records=10)
    fill_files(node, 3)
    node.wait(node.engine.alter([MoveFloor(FIRST, 15)]))
    node.disk.capacity = 2 * node.disk.used
    maintain(node, 20)
    assert node.wait(node.engine.offset_at(FIRST, Edge.START)).offset == 10


def fill_files(node: Node, files: int) -> None:
    until = node.engine.writer.active.generation + files
    while node.engine.writer.active.generation < until:
        node.append(FIRST, "x" * 4096)
    node.settle()
