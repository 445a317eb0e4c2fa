"""The checker by itself: silent about an engine that is right, and never about one that is wrong."""

from __future__ import annotations

import pytest

from tests.simulation.reference_engine import ReferenceEngine
from tests.simulation.seed_run import Outcome, run_seed
from tests.simulation.temper import roomy_temper
from tests.unit.simulation import broken_engines as broken

SEEDS_MAX = 150


def run(seed: int, engine: type[ReferenceEngine] = ReferenceEngine) -> Outcome:
    return run_seed(seed, engine, run_merge=None, draw=roomy_temper)


@pytest.mark.slow
def test_a_right_engine_breaks_nothing() -> None:
    outcomes = [run(seed) for seed in range(60)]
    assert [outcome.violation for outcome in outcomes if outcome.violation] == []
    assert sum(outcome.recoveries for outcome in outcomes) > 100
    assert sum(outcome.commits for outcome in outcomes) > 2_000


def test_a_seed_is_a_history() -> None:
    assert all(run(seed) == run(seed) for seed in range(5))


WRONG = [
    (broken.AnswersWithoutTheSync, {"NothingAcknowledgedLost", "NoAnswerShowsUndurableState"}),
    (broken.ShowsWhatIsNotDurable, {"NoAnswerShowsUndurableState"}),
    (broken.LoadsWhatIsNotDurable, {"NoAnswerShowsUndurableState"}),
    (broken.WritesACommitInTwoParts, {"GroupsAtomic", "StateEqualsReplay"}),
    (broken.ForgetsProducers, {"IdempotenceSurvives", "RefusalsChangeNothing"}),
    (broken.TakesGapsInSequences, {"IdempotenceSurvives", "RefusalsChangeNothing"}),
    (broken.SkipsOffsets, {"OffsetsDenseAndNeverReused"}),
    (broken.RefusesTheNeighbours, {"RefusalsChangeNothing"}),
    (broken.ChangesBytes, {"BytesVerbatim", "CompactionKeepsTheLast"}),
    (broken.SkipsABatch, {"ReadsAreWhole"}),
    (broken.TellsOfNoAbortedRange, {"StableOffsetAndAborted"}),
    (broken.ForgetsOpenTransactions, {"StableOffsetAndAborted"}),
    (broken.CompactsTooMuch, {"CompactionKeepsTheLast"}),
    (broken.TrimsByItself, {"RetentionTakesOnlyWhatIsDue"}),
    (broken.FindsTheNextOne, {"PositionsAreFound"}),
    (broken.ForgetsToTellWatchers, {"WatchesTellTheTruth"}),
    (broken.TellsWatchersWithinACall, {"WatchesTellTheTruth"}),
    (broken.NeverAnswers, {"EveryCallIsAnswered"}),
    (broken.RefusesATornTail, {"AlwaysRecovers"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "invariants"), WRONG, ids=[engine.__name__ for engine, _ in WRONG])
def test_a_wrong_engine_is_noticed(engine: type[ReferenceEngine], invariants: set[str]) -> None:
    for seed in range(SEEDS_MAX):
        outcome = run(seed, engine)
        if outcome.violation is None:
            continue
        if outcome.invariant in invariants:
            return
        # A fault may show by another invariant first; that must be the fault's doing, and the search goes on.
        assert run(seed, ReferenceEngine).violation is None, f"seed {seed}: {outcome.violation}"
    pytest.fail(f"{SEEDS_MAX} seeds noticed nothing")
