"""A thousand histories, each from its seed: what `python -m tests.simulation` runs by the million."""

from __future__ import annotations

import pytest

from tests.simulation.runner import report, run_seeds

SEEDS = 1_000
ONCE_BROKEN = (91_001_188, 93_001_462)
"""Of those that failed once: what is rare enough to be missed by the others."""


@pytest.mark.simulation
@pytest.mark.slow
def test_no_seed_breaks_an_invariant() -> None:
    broken = []
    commits = recoveries = 0
    for outcome in run_seeds([*range(SEEDS), *ONCE_BROKEN]):
        commits += outcome.commits
        recoveries += outcome.recoveries
        if outcome.violation is not None:
            broken.append(outcome)
    assert not broken, f"{len(broken)} seeds failed\n" + "\n".join(map(report, broken[:3]))
    # A generator that no longer generates would pass everything.
    assert commits > 20 * SEEDS
    assert recoveries > SEEDS
