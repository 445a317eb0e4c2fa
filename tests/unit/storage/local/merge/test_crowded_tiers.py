"""Many small runs become one; those that lie among large ones stay, because these would be copied with them."""

from __future__ import annotations

from mainstem.storage.contract import Budget
from tests.support.storage.simulated_node import Node

FILE_BYTES = 256 * 1024
LARGE_RECORDS = 4_000
LOG = 1


def new_node() -> Node:
    node = Node(wal_file_bytes=FILE_BYTES, tier_runs_max=3, merge_files_max=1)
    node.create(LOG)
    return node


def add_run(node: Node, text: str, records: int) -> None:
    """A file of the write-ahead log that is merged by itself; if its batches are large, it is adopted."""
    node.append(LOG, text, records=records)
    node.engine.proofs.seal_active()
    node.append(LOG, f"{text} after", records=1)
    node.wait(node.engine.maintain(Budget()))
    node.settle()


def tiers(node: Node) -> list[int]:
    return sorted(run.index.tier for run in node.engine.files.runs.values() if run.adopted is None)


def test_small_runs_become_one_of_the_next_tier() -> None:
    node = new_node()
    for number in range(3):
        add_run(node, f"small {number}", 10)
    node.wait(node.engine.maintain(Budget()))
    assert tiers(node) == [1]


def test_small_runs_among_large_ones_stay() -> None:
    node = new_node()
    for number in range(5):
        add_run(node, f"small {number}", 10)
        add_run(node, f"large {number}", LARGE_RECORDS)
    texts = node.texts(LOG)
    for _ in range(3):
        node.wait(node.engine.maintain(Budget()))
    assert sum(run.adopted is not None for run in node.engine.files.runs.values()) == 5
    assert set(tiers(node)) == {0}
    assert node.texts(LOG) == texts
    # Those that come later, one behind the other, are merged as ever.
    for number in range(6):
        add_run(node, f"later {number}", 10)
    assert 1 in tiers(node)
    assert sum(run.adopted is not None for run in node.engine.files.runs.values()) == 5
