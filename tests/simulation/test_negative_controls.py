"""A checker that cannot go red proves nothing: each rule is broken on purpose, and a seed must notice.

The real engine is broken where its safety lies: the sync before the answer, the COMMIT frame, the generation in the
checksum. The reference engine is broken in one way for each invariant.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from mainstem.storage.local import frame, group, recovery, wal_writer
from tests.simulation import sabotage
from tests.simulation.runner import run_local_seed
from tests.simulation.seed_run import Outcome
from tests.simulation.temper import Temper, draw_temper, recycling_temper
from tests.simulation.world import World

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


def first_red(
    seeds: int,
    draw: Callable[[Random], Temper] = draw_temper,
    prepare: Callable[[World], None] | None = None,
) -> Outcome | None:
    """The first seed that breaks an invariant."""
    outcomes = (run_local_seed(seed, draw, prepare) for seed in range(seeds))
    return next((outcome for outcome in outcomes if outcome.violation is not None), None)


def test_acknowledging_before_the_sync_is_noticed() -> None:
    red = first_red(30, prepare=sabotage.acknowledge_before_sync)
    assert red is not None
    assert red.invariant in {"NothingAcknowledgedLost", "NoAnswerShowsUndurableState", "AlwaysRecovers"}


def test_taking_a_group_without_its_commit_frame_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "decode_group", sabotage.decode_group_without_commit)
    red = first_red(300)
    assert red is not None


def test_leaving_the_generation_out_of_the_check_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (frame, wal_writer):
        monkeypatch.setattr(module, "encode_frame", sabotage.encode_frame_without_generation)
    for module in (frame, group, recovery):
        monkeypatch.setattr(module, "decode_frame", sabotage.decode_frame_without_generation)
    assert first_red(400, draw=recycling_temper) is not None


def test_the_same_histories_are_green_without_sabotage() -> None:
    assert first_red(30) is None
    assert first_red(60, draw=recycling_temper) is None
