"""The same histories over a shared store: every start is a take-over, and former owners live on beside the new one."""

from __future__ import annotations

import pytest

from mainstem.storage.shared.shared_disk import SharedDisk
from mainstem.storage.shared.shipped_log import ShippedLog
from mainstem.testing.shared_store import SimulatedCatalog
from tests.simulation.runner import report, run_seeds
from tests.simulation.shared_store.take_overs import SharedOpener, run_shared_seed

SEEDS = 200
RED_WITHIN = 60

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


def test_no_seed_breaks_an_invariant_over_a_shared_store() -> None:
    outcomes = list(run_seeds(range(SEEDS), run_shared_seed))
    broken = [outcome for outcome in outcomes if outcome.violation is not None]
    assert not broken, f"{len(broken)} seeds failed\n" + "\n".join(map(report, broken[:3]))
    assert sum(outcome.commits for outcome in outcomes) > 20 * SEEDS
    assert sum(outcome.recoveries for outcome in outcomes) > SEEDS


def is_red(sabotage: object = None) -> bool:
    return any(run_shared_seed(seed, sabotage).violation is not None for seed in range(RED_WITHIN))  # type: ignore[arg-type]


def test_groups_of_a_former_owner_that_are_taken_are_noticed() -> None:
    def no_fence(opener: SharedOpener) -> None:
        assert opener.store is not None
        opener.store.checks_epoch = False

    assert is_red(no_fence)


def test_an_answer_before_the_group_is_shipped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    ship = ShippedLog.ship

    def answer_first(
        self: ShippedLog, sequence: int, generation: int, position: int, parts: object, done: object
    ) -> None:
        done(None, None)  # type: ignore[operator]
        ship(self, sequence, generation, position, parts, lambda _, error: None)  # type: ignore[arg-type]

    monkeypatch.setattr(ShippedLog, "ship", answer_first)
    assert is_red()


def test_runs_that_are_named_and_not_uploaded_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedDisk, "publish", lambda self, paths: None)
    assert is_red()


def test_groups_that_are_dropped_before_they_are_merged_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    append = SimulatedCatalog.append

    def drop_early(self: SimulatedCatalog, shard: str, epoch: int, groups: object) -> None:
        append(self, shard, epoch, groups)  # type: ignore[arg-type]
        self._store.fault_share = 0.0
        self.forget_groups(shard, epoch, groups[0].sequence - 20)  # type: ignore[index]

    monkeypatch.setattr(SimulatedCatalog, "append", drop_early)
    assert is_red()


def test_a_reaper_without_grace_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    append = SimulatedCatalog.append

    def reap_at_once(self: SimulatedCatalog, shard: str, epoch: int, groups: object) -> None:
        named = self.named(shard)
        for key in [key for key in self._store.content if key not in named]:
            del self._store.content[key]
        append(self, shard, epoch, groups)  # type: ignore[arg-type]

    monkeypatch.setattr(SimulatedCatalog, "append", reap_at_once)
    assert is_red()
