"""Space of blocks that logs share: it is counted once, kept while one log needs it, and comes back when none does."""

from __future__ import annotations

from mainstem.storage.contract import Append, Budget, Commit, DeleteLog, Refer, TrimLog
from mainstem.storage.local.runs.stored_file import RunFile
from mainstem.wire.record_batch import encode_batch
from tests.support.storage.simulated_node import Node

LOGS = range(1, 21)
MESSAGES = 100


def new_node() -> Node:
    """A fan-out to all logs, the last of which begins with a batch of its own, in one run."""
    node = Node(wal_file_bytes=1 << 20, block_bytes=4096, retention_check_ms=0)
    node.create(*LOGS)
    node.append(LOGS[-1], "own")
    for number in range(MESSAGES):
        batch = encode_batch([(0, 1000 + number, b"k", b"%d" % number * 50, ())])
        node.commit(Commit(appends=[Append(LOGS[0], bytearray(batch))], refers=[Refer(log, 0) for log in LOGS[1:]]))
    node.engine.proofs.seal_active()
    node.append(LOGS[0], "after")
    maintain(node)
    return node


def maintain(node: Node) -> None:
    for _ in range(5):
        node.wait(node.engine.maintain(Budget()))
        node.settle()


def runs(node: Node) -> list[RunFile]:
    return list(node.engine.files.runs.values())


def test_a_block_counts_once() -> None:
    node = new_node()
    (run,) = runs(node)
    index = run.index
    assert index.is_shared
    assert run.bytes < 2 * index.bytes[0]
    assert sum(index.bytes) > 19 * index.bytes[0]
    assert node.engine.metrics()["run_bytes"] == run.bytes


def test_it_stays_while_one_log_needs_it() -> None:
    node = new_node()
    (before,) = runs(node)
    expected = node.texts(LOGS[-1])
    node.wait(node.engine.alter([DeleteLog(log) for log in LOGS[:-1]]))
    maintain(node)
    (run,) = runs(node)
    assert run.index.id == before.index.id, "there is nothing to be won by writing it again"
    assert node.texts(LOGS[-1]) == expected


def test_it_is_written_anew_when_most_of_it_is_dead() -> None:
    node = new_node()
    (before,) = runs(node)
    node.commit(Commit(changes=[TrimLog(log, MESSAGES * 4 // 5) for log in LOGS]))
    expected = {log: node.texts(log) for log in LOGS}
    maintain(node)
    (run,) = runs(node)
    assert run.index.is_shared
    assert run.bytes < before.bytes / 2
    assert {log: node.texts(log) for log in LOGS} == expected
    maintain(node)
    assert runs(node) == [run], "and not again"


def test_it_is_removed_when_nobody_needs_it() -> None:
    node = new_node()
    (run,) = runs(node)
    end = run.index.nexts[run.index.find(LOGS[-1])]
    node.wait(node.engine.alter([DeleteLog(log) for log in LOGS[:-1]]))
    node.commit(Commit(changes=[TrimLog(LOGS[-1], end)]))
    maintain(node)
    assert runs(node) == []
