"""Keeping house: what goes on beside something else has come to its end before it begins again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainstem.storage.contract import Budget, LogConfig
from mainstem.storage.local.upkeep.merges import Merges
from mainstem.storage.local.upkeep.retention_pass import RetentionPass
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.runtime.steps import Steps, turn
from tests.support.storage.simulated_node import Node

TURNS = 50


class Passes:
    """Passes of retention that take their time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.under_way = self.done = self.at_most = 0
        monkeypatch.setattr(RetentionPass, "run", lambda retention, _: self.run(retention._runtime))

    def run(self, runtime: Runtime) -> Steps[None]:
        self.under_way += 1
        self.at_most = max(self.at_most, self.under_way)
        for _ in range(TURNS):
            yield turn(runtime)
        self.under_way -= 1
        self.done += 1


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Passes]:
    made = Passes(monkeypatch)
    yield made
    assert made.at_most == 1


def new_node() -> Node:
    node = Node(retention_check_ms=0)
    node.create(1, config=LogConfig(retention_bytes=100))
    node.append(1, "a")
    return node


def test_a_call_is_answered_when_retention_has_ended_too(passes: Passes) -> None:
    node = new_node()
    for number in range(3):
        node.wait(node.engine.maintain(Budget()))
        assert (passes.done, passes.under_way) == (number + 1, 0)


def test_a_job_that_fails_is_told_when_retention_has_ended(passes: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    node = new_node()

    def broken(_: Merges) -> Steps[None]:
        yield turn(node.runtime)
        raise ValueError("a fault of ours")

    monkeypatch.setattr(Merges, "most_dead_run", broken)
    for number in range(3):
        with pytest.raises(ValueError, match="a fault of ours"):
            node.wait(node.engine.maintain(Budget()))
        assert (passes.done, passes.under_way) == (number + 1, 0)
    monkeypatch.undo()
    node.wait(node.engine.maintain(Budget()))
