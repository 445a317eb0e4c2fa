"""Histories on a disk that is full most of the time; and that each rule about it is noticed when it is broken."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mainstem.storage.contract import MaintainReport
from mainstem.storage.local import engine
from mainstem.storage.local.upkeep.early_deletion import EarlyDeletion
from mainstem.storage.local.upkeep.merges import Merges
from mainstem.storage.local.upkeep.space import Space
from mainstem.storage.local.wal.writer import WalWriter
from mainstem.storage.runtime.steps import Steps
from tests.simulation.runner import report, run_local_seed
from tests.simulation.temper import Temper, full_disk_temper
from tests.simulation.test_negative_controls import first_red

SEEDS = 100
SEEDS_UNTIL_RED = 300

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


def without_early_deletion(rng: Random) -> Temper:
    while (temper := full_disk_temper(rng)).early_deletion:
        pass
    return temper


def with_early_deletion(rng: Random) -> Temper:
    while not (temper := full_disk_temper(rng)).early_deletion:
        pass
    return temper._replace(retained=True, transactional=True, producers=3, records_max=12)


def test_no_full_disk_breaks_an_invariant() -> None:
    outcomes = [run_local_seed(seed, full_disk_temper) for seed in range(SEEDS)]
    broken = [outcome for outcome in outcomes if outcome.violation is not None]
    assert not broken, f"{len(broken)} seeds failed\n" + "\n".join(map(report, broken[:3]))
    assert sum(outcome.recoveries for outcome in outcomes) > SEEDS


def nothing(*_: Any) -> Steps[None]:
    return None
    yield


def test_dead_runs_that_stay_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Merges, "remove_dead", nothing)
    monkeypatch.setattr(Merges, "most_dead_run", nothing)
    red = first_red(SEEDS_UNTIL_RED, draw=without_early_deletion)
    assert red is not None
    assert red.invariant == "DeadSpaceComesBack"


def test_a_start_that_needs_space_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WalWriter, "_has_room", lambda self: True)
    monkeypatch.setattr(engine, "give_tails_back", lambda recovered: None)
    red = first_red(SEEDS_UNTIL_RED, draw=without_early_deletion)
    assert red is not None
    assert red.invariant == "StartNeedsNoSpace"


def test_early_deletion_that_nobody_asked_for_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Space.check

    def check_and_delete(self: Space, told: MaintainReport) -> Steps[None]:
        yield from check(self, told)
        yield from self.early_deletion.take_oldest(told)

    monkeypatch.setattr(Space, "check", check_and_delete)
    red = first_red(SEEDS_UNTIL_RED, draw=without_early_deletion)
    assert red is not None
    assert red.invariant == "RetentionTakesOnlyWhatIsDue"


def test_early_deletion_of_half_a_transaction_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def up_to_the_limit(self: EarlyDeletion, log: int, start: int, limit: int) -> Steps[int]:
        return limit
        yield

    monkeypatch.setattr(EarlyDeletion, "_whole_batches", up_to_the_limit)
    # Seen by a reader, or only after a restart. Where it shows by another invariant first, the search goes on.
    noticed = {"EarlyDeletionTakesWholeBatches", "RetentionTakesOnlyWhatIsDue"}
    outcomes = (run_local_seed(seed, with_early_deletion, None) for seed in range(SEEDS_UNTIL_RED))
    assert any(outcome.invariant in noticed for outcome in outcomes)
