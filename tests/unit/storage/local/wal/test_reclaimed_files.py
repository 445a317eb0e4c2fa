"""A file that was adopted as a run becomes a file of the write-ahead log again when it is dead: cheaper than a new one."""

from __future__ import annotations

from mainstem.storage.contract import Budget, DeleteLog
from mainstem.storage.local.limits import MergeLimits
from tests.support.storage.simulated_node import Node, make_batch

FILE_BYTES = 256 * 1024
RECORDS = 4_000
ADOPTED, KEPT = 1, 2


def filled() -> Node:
    """A node of which some files are runs by now."""
    node = Node(wal_file_bytes=FILE_BYTES)
    node.create(ADOPTED, KEPT)
    for number in range(6):
        node.append(ADOPTED, f"dead {number}", records=RECORDS)
    node.settle()
    return node


def delete_adopted(node: Node) -> None:
    node.wait(node.engine.alter([DeleteLog(ADOPTED)]))
    node.wait(node.engine.maintain(Budget()))
    node.settle()


def test_the_batches_are_large_enough() -> None:
    assert MergeLimits().large_batch_bytes < len(make_batch("dead 0", RECORDS)) < FILE_BYTES / 2


def test_a_dead_adopted_run_is_the_next_file() -> None:
    node = filled()
    adopted = [run.file.path for run in node.engine.files.runs.values() if run.adopted is not None]
    assert adopted
    stock = node.engine.writer.spares
    delete_adopted(node)
    assert node.engine.writer.spares == stock + len(adopted)
    assert not any(node.disk.exists(path) for path in adopted)
    spares = [name for name in node.disk.list("data/wal") if name.startswith("spare-")]
    assert {len(node.disk.content(f"data/wal/{name}")) for name in spares} == {FILE_BYTES}


def test_what_is_written_over_it_is_all_that_is_found() -> None:
    node = filled()
    delete_adopted(node)
    wanted = [f"live {number}" for number in range(12)]
    for text in wanted:
        node.append(KEPT, text, records=RECORDS)
    assert node.texts(KEPT) == wanted
    again = Node(node.disk.copy(), wal_file_bytes=FILE_BYTES)
    assert again.texts(KEPT) == wanted


def test_the_stock_has_a_limit() -> None:
    node = Node(wal_file_bytes=FILE_BYTES, wal_spare_files=1, merge_files_max=1)
    node.create(ADOPTED, KEPT)
    for number in range(12):
        node.append(ADOPTED, f"dead {number}", records=RECORDS)
    node.settle()
    assert len(node.engine.files.runs) > 2
    delete_adopted(node)
    for _ in range(3):  # a few files at a time
        node.wait(node.engine.maintain(Budget()))
    node.settle()
    assert not node.engine.files.runs
    assert node.engine.writer.spares == 2


def test_a_full_disk_gets_the_space() -> None:
    node = filled()
    adopted = [run.file.path for run in node.engine.files.runs.values() if run.adopted is not None]
    node.wait(node.engine.alter([DeleteLog(ADOPTED)]))
    node.disk.capacity = node.disk.used + FILE_BYTES
    node.wait(node.engine.maintain(Budget()))
    node.settle()
    assert not any(node.disk.exists(path) for path in adopted)
    assert node.engine.writer.spares <= node.settings.wal_spare_files
