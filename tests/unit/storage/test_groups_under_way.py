"""When a group is handed to the disk: alone, or behind another while many callers wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mainstem.model.errors import EngineFailed
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Append, Commit, CreateLog, Mutation
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.ledger_engine import HALF_ENTRIES_MAX
from mainstem.wire.record_batch import encode_batch

BATCH = bytes(encode_batch([(0, 1_700_000_000_000, None, b"value", ())]))
GROUP_BYTES_MAX = 1_000 * len(BATCH)


class Turns:
    """A runtime whose turns a test takes, at a time that stands still unless the test lets it pass."""

    loop = None

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []
        self.now = 0.0
        self.later: list[tuple[float, Callable[[], None]]] = []

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic(self) -> float:
        return self.now

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        self.later.append((self.now + seconds, function))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due = [function for at, function in self.later if at <= self.now]
        self.later = [(at, function) for at, function in self.later if at > self.now]
        for function in due:
            function()

    def call_soon(self, function: Callable[[], None]) -> None:
        self._soon.append(function)

    def end_turn(self) -> None:
        soon, self._soon = self._soon, []
        for function in soon:
            function()


class HeldEngine(MemoryEngine):
    """Groups become durable when the test says so."""

    def __init__(self, runtime: Turns) -> None:
        super().__init__(runtime, group_bytes_max=GROUP_BYTES_MAX)
        self.turns = runtime
        self.held: list[CommitGroup] = []

    def _submit(self, group: CommitGroup) -> None:
        self.held.append(group)

    def finish(self) -> CommitGroup:
        """The disk is done with the oldest."""
        group = self.held.pop(0)
        self._durable(group)
        return group

    def call(self, commits: int = 1) -> Answer:
        return self.commit([Commit((Append(1, BATCH),)) for _ in range(commits)])

    @property
    def sizes(self) -> list[int]:
        return [len(group.answers) for group in self.held]


@pytest.fixture
def engine() -> HeldEngine:
    engine = HeldEngine(Turns())
    engine.alter([CreateLog(1)])
    engine.turns.end_turn()
    engine.finish()
    return engine


def go_round(engine: HeldEngine, callers: int, rounds: int, commits: int = 1) -> list[list[int]]:
    """Callers who each wait for their last answer; the sizes of the groups at the disk after each of its groups."""
    waiting = [engine.call(commits) for _ in range(callers)]
    engine.turns.end_turn()
    seen = []
    for _ in range(rounds):
        engine.finish()
        # Whoever has been answered calls again, one after the other in one turn.
        waiting = [engine.call(commits) if answer.done else answer for answer in waiting]
        engine.turns.end_turn()
        seen.append(engine.sizes)
    return seen


def test_few_callers_share_one_sync(engine):
    seen = go_round(engine, callers=31, rounds=8)
    assert seen == [[31]] * 8


def test_what_few_bring_while_a_group_is_at_the_disk_waits_for_it(engine):
    first = engine.call()
    engine.turns.end_turn()
    others = [engine.call() for _ in range(5)]
    engine.turns.end_turn()
    assert engine.sizes == [1]
    engine.finish()
    assert first.done
    assert not any(answer.done for answer in others)
    assert engine.sizes == [5]


def test_many_callers_keep_a_group_behind_the_one_at_the_disk(engine):
    seen = go_round(engine, callers=64, rounds=12)
    assert all(len(sizes) == 2 for sizes in seen[4:]), seen


@pytest.mark.parametrize("callers", [32, 33, 40, 64, 127])
def test_they_come_in_halves(engine, callers):
    seen = go_round(engine, callers=callers, rounds=12)
    assert all(len(sizes) == 2 and min(sizes) == callers // 2 for sizes in seen[4:]), seen


def test_callers_who_keep_the_disk_waiting_come_in_one_group(engine):
    seen = go_round(engine, callers=2 * HALF_ENTRIES_MAX + 2, rounds=8)
    assert all(len(sizes) == 1 for sizes in seen), seen


def test_so_do_those_who_bring_many_batches_each(engine):
    seen = go_round(engine, callers=48, rounds=8, commits=5)
    assert all(len(sizes) == 1 for sizes in seen), seen


def test_the_number_of_callers_is_forgotten(engine):
    go_round(engine, callers=64, rounds=6)
    while engine.held:
        engine.finish()
    for _ in range(30):
        answer = engine.call()
        engine.turns.end_turn()
        engine.finish()
        assert answer.done
    assert go_round(engine, callers=24, rounds=4) == [[24]] * 4


def test_no_more_than_two_groups_are_under_way(engine):
    go_round(engine, callers=64, rounds=6)
    for _ in range(500):
        engine.call()
    engine.turns.end_turn()
    assert len(engine.held) == 2


def test_a_full_group_does_not_wait_for_the_one_at_the_disk(engine):
    first = engine.call()
    engine.turns.end_turn()
    large = engine.call(commits=3 * GROUP_BYTES_MAX // len(BATCH))
    assert len(engine.held) == 2
    assert not engine.held[1].answers
    while engine.held:
        assert not large.done
        engine.finish()
    assert first.done
    assert len(large.result()) == 3 * GROUP_BYTES_MAX // len(BATCH)


def test_answers_come_in_the_order_of_the_groups_and_each_with_its_own(engine):
    go_round(engine, callers=64, rounds=5)
    first, second = engine.held
    engine.finish()
    assert all(answer.done for answer, _ in first.answers)
    assert not any(answer.done for answer, _ in second.answers)


def test_what_waits_for_all_before_it_waits_for_the_last_group(engine):
    go_round(engine, callers=64, rounds=5)
    while not engine._open.empty:
        engine.finish()
    assert engine.held
    loaded = engine.load("anything")
    while engine.held:
        assert not loaded.done
        engine.finish()
    assert loaded.done


def test_a_failure_fails_every_group_under_way(engine):
    go_round(engine, callers=64, rounds=5)
    assert len(engine.held) == 2
    answers = [answer for group in engine.held for answer, _ in group.answers]
    later = engine.call()
    engine._fail(EngineFailed("the disk is gone"))
    assert all(isinstance(answer.error, EngineFailed) for answer in [*answers, later])


SYNC_S = 0.008


def sync(engine: HeldEngine) -> CommitGroup:
    """The disk takes its time."""
    engine.turns.pass_time(SYNC_S)
    return engine.finish()


def acknowledge(engine: HeldEngine, number: int) -> Answer:
    return engine.commit([Commit(state=[Mutation("acks", b"%d" % number, b"")])], patient=True)


def test_a_record_and_the_acknowledgement_of_the_last_one_share_a_sync(engine):
    """One sender that waits for each answer, one consumer that acknowledges each record: one sync for each record."""
    engine.call()
    engine.turns.end_turn()
    sync(engine)
    for number in range(5):
        acknowledgement = acknowledge(engine, number)
        engine.turns.end_turn()
        assert engine.sizes == [], "the sender was just answered"
        engine.turns.pass_time(0.001)
        record = engine.call()
        engine.turns.end_turn()
        assert engine.sizes == [2]
        sync(engine)
        assert record.done
        assert acknowledgement.done


def test_patience_ends(engine):
    engine.call()
    engine.turns.end_turn()
    sync(engine)
    acknowledgement = acknowledge(engine, 1)
    engine.turns.end_turn()
    engine.turns.pass_time(SYNC_S / 2)
    assert engine.sizes == [1], "the sender did not come again"
    sync(engine)
    assert acknowledgement.done
    acknowledge(engine, 2)
    engine.turns.end_turn()
    assert engine.sizes == [1], "nobody has sent since"


def test_what_was_acknowledged_during_a_sync_waits_for_the_sender_of_it(engine):
    engine.call()
    engine.turns.end_turn()
    acknowledge(engine, 1)
    sync(engine)
    assert engine.sizes == []
    engine.call()
    engine.turns.end_turn()
    assert engine.sizes == [2]


def test_a_closing_engine_is_not_patient(engine):
    engine.call()
    engine.turns.end_turn()
    sync(engine)
    acknowledgement = acknowledge(engine, 1)
    engine.turns.end_turn()
    engine.close()
    engine.turns.end_turn()
    assert engine.sizes[:1]
    sync(engine)
    assert acknowledgement.done
