"""State runs are found by their names: a name that was never synced is, before anything is built upon it."""

from __future__ import annotations

from random import Random

from mainstem.storage.contract import Budget
from tests.support.storage.simulated_node import Node


def test_a_run_that_a_killed_broker_named_is_not_lost_with_the_power() -> None:
    node = Node(merge_files_min=1)
    node.create(1)
    for number in range(40):
        node.append(1, f"t{number}", state=True, records=20)
        node.wait(node.engine.maintain(Budget()))
    node.settle()
    disk = node.disk
    path = next(path for path in disk.paths() if path.endswith(".state"))
    # As if it had been killed between the last two steps: the name is there, and not durable.
    disk.rename(path, f"{path}.tmp")
    disk.sync_directory("data/state")
    disk.rename(f"{path}.tmp", path)
    killed = disk.restart(Random(1))
    node = Node(killed, merge_files_min=1_000, unmerged_files_max=1_000)
    for number in range(40, 100):  # The files that were merged are used again.
        node.append(1, f"t{number}", state=True, records=20)
    for seed in range(20):
        found = Node(killed.survivor(Random(seed)))
        assert found.state() == {f"t{number}" for number in range(100)}
