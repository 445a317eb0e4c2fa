"""A checker that cannot go red proves nothing: each rule is broken on purpose, and a seed must notice.

The real engine is broken where its safety lies: the sync before the answer, the COMMIT frame, the generation in the
checksum. The reference engine is broken in one way for each invariant.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

import pytest

from mainstem.storage.local import frame
from mainstem.storage.local.wal import stored_group as group
from tests.simulation import sabotage
from tests.simulation.invariants import Invariant
from tests.simulation.runner import run_local_seed
from tests.simulation.seed_run import Outcome
from tests.simulation.temper import Temper, draw_temper, recycling_temper
from tests.simulation.world import World

INVARIANTS = {invariant.__name__ for invariant in Invariant.__subclasses__()}

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


def replace_everywhere(monkeypatch: pytest.MonkeyPatch, original: object, replacement: object) -> None:
    """In every module of the engine that has imported it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mainstem.storage."):
            for attribute in [key for key, value in vars(module).items() if value is original]:
                monkeypatch.setattr(module, attribute, replacement)


def first_red(
    seeds: int,
    draw: Callable[[Random], Temper] = draw_temper,
    prepare: Callable[[World], None] | None = None,
) -> Outcome | None:
    """The first seed that breaks an invariant; an error of the sabotage itself is none."""
    for seed in range(seeds):
        outcome = run_local_seed(seed, draw, prepare)
        if outcome.violation is not None:
            assert outcome.invariant in INVARIANTS, outcome.violation
            return outcome
    return None


def test_acknowledging_before_the_sync_is_noticed() -> None:
    red = first_red(30, prepare=sabotage.acknowledge_before_sync)
    assert red is not None
    assert red.invariant in {"NothingAcknowledgedLost", "NoAnswerShowsUndurableState", "AlwaysRecovers"}


def test_taking_a_group_without_its_commit_frame_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_everywhere(monkeypatch, group.decode_group, sabotage.decode_group_without_commit)
    assert first_red(300) is not None


def test_leaving_the_generation_out_of_the_check_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_everywhere(monkeypatch, frame.encode_frame, sabotage.encode_frame_without_generation)
    replace_everywhere(monkeypatch, frame.decode_frame, sabotage.decode_frame_without_generation)
    assert first_red(400, draw=recycling_temper) is not None


def test_the_same_histories_are_green_without_sabotage() -> None:
    assert first_red(30) is None
    assert first_red(60, draw=recycling_temper) is None
