"""When a group is handed to the disk: alone, or behind another while many callers wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mainstem.model.errors import EngineFailed
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Append, Commit, CreateLog, Mutation
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.ledger import Ledger
from mainstem.storage.sequencer.limits import SequencerLimits
from mainstem.storage.sequencer.log_state import FLUSH_SYNC, LogState
from mainstem.storage.sequencer.sequencer import Sequencer
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


class HeldStore:
    """Groups become durable when the test says so."""

    def __init__(self, runtime: Turns) -> None:
        self.turns = runtime
        self.held: list[CommitGroup] = []
        ledger = Ledger(
            default_rank=FLUSH_SYNC, commit_bytes_max=32 << 20, copy_bytes_max=1 << 62, now_ms=runtime.now_ms
        )
        self.sequencer = Sequencer(runtime, ledger, group_bytes_max=GROUP_BYTES_MAX, pending_bytes_max=256 << 20)
        self.sequencer.attach(self)
        self.commit = self.sequencer.commit

    def submit(self, group: CommitGroup) -> None:
        self.held.append(group)

    def show(self, group: CommitGroup) -> None:
        pass

    def log_trimmed(self, state: LogState) -> None:
        pass

    def log_deleted(self, state: LogState) -> None:
        pass

    def finish(self) -> CommitGroup:
        """The disk is done with the oldest."""
        group = self.held.pop(0)
        self.sequencer.durable(group)
        return group

    def call(self, commits: int = 1) -> Answer:
        return self.commit([Commit((Append(1, BATCH),)) for _ in range(commits)])

    @property
    def sizes(self) -> list[int]:
        return [len(group.answers) for group in self.held]


@pytest.fixture
def store() -> HeldStore:
    store = HeldStore(Turns())
    store.sequencer.alter([CreateLog(1)])
    store.turns.end_turn()
    store.finish()
    return store


def go_round(store: HeldStore, callers: int, rounds: int, commits: int = 1) -> list[list[int]]:
    """Callers who each wait for their last answer; the sizes of the groups at the disk after each of its groups."""
    waiting = [store.call(commits) for _ in range(callers)]
    store.turns.end_turn()
    seen = []
    for _ in range(rounds):
        store.finish()
        # Callers that were answered call again, one after the other in one turn.
        waiting = [store.call(commits) if answer.done else answer for answer in waiting]
        store.turns.end_turn()
        seen.append(store.sizes)
    return seen


def test_few_callers_share_one_sync(store):
    seen = go_round(store, callers=31, rounds=8)
    assert seen == [[31]] * 8


def test_what_few_bring_while_a_group_is_at_the_disk_waits_for_it(store):
    first = store.call()
    store.turns.end_turn()
    others = [store.call() for _ in range(5)]
    store.turns.end_turn()
    assert store.sizes == [1]
    store.finish()
    assert first.done
    assert not any(answer.done for answer in others)
    assert store.sizes == [5]


def test_many_callers_keep_a_group_behind_the_one_at_the_disk(store):
    seen = go_round(store, callers=64, rounds=12)
    assert all(len(sizes) == 2 for sizes in seen[4:]), seen


@pytest.mark.parametrize("callers", [32, 33, 40, 64, 127])
def test_they_come_in_halves(store, callers):
    seen = go_round(store, callers=callers, rounds=12)
    assert all(len(sizes) == 2 and min(sizes) == callers // 2 for sizes in seen[4:]), seen


def test_callers_who_keep_the_disk_waiting_come_in_one_group(store):
    seen = go_round(store, callers=2 * SequencerLimits().half_entries_max + 2, rounds=8)
    assert all(len(sizes) == 1 for sizes in seen), seen


def test_so_do_those_who_bring_many_batches_each(store):
    seen = go_round(store, callers=48, rounds=8, commits=5)
    assert all(len(sizes) == 1 for sizes in seen), seen


def test_the_number_of_callers_is_forgotten(store):
    go_round(store, callers=64, rounds=6)
    while store.held:
        store.finish()
    for _ in range(30):
        answer = store.call()
        store.turns.end_turn()
        store.finish()
        assert answer.done
    assert go_round(store, callers=24, rounds=4) == [[24]] * 4


def test_no_more_than_two_groups_are_under_way(store):
    go_round(store, callers=64, rounds=6)
    for _ in range(500):
        store.call()
    store.turns.end_turn()
    assert len(store.held) == 2


def test_a_full_group_does_not_wait_for_the_one_at_the_disk(store):
    first = store.call()
    store.turns.end_turn()
    large = store.call(commits=3 * GROUP_BYTES_MAX // len(BATCH))
    assert len(store.held) == 2
    assert not store.held[1].answers
    while store.held:
        assert not large.done
        store.finish()
    assert first.done
    assert len(large.result()) == 3 * GROUP_BYTES_MAX // len(BATCH)


def test_answers_come_in_the_order_of_the_groups_and_each_with_its_own(store):
    go_round(store, callers=64, rounds=5)
    first, second = store.held
    store.finish()
    assert all(answer.done for answer, _ in first.answers)
    assert not any(answer.done for answer, _ in second.answers)


def test_what_waits_for_all_before_it_waits_for_the_last_group(store):
    go_round(store, callers=64, rounds=5)
    while store.sequencer.pending_bytes > sum(group.bytes for group in store.held):
        store.finish()
    assert store.held
    loaded = store.sequencer.load("anything")
    while store.held:
        assert not loaded.done
        store.finish()
    assert loaded.done


def test_a_failure_fails_every_group_under_way(store):
    go_round(store, callers=64, rounds=5)
    assert len(store.held) == 2
    answers = [answer for group in store.held for answer, _ in group.answers]
    later = store.call()
    store.sequencer.fail(EngineFailed("the disk is gone"))
    assert all(isinstance(answer.error, EngineFailed) for answer in [*answers, later])


SYNC_S = 0.008


def sync(store: HeldStore) -> CommitGroup:
    """The disk takes its time."""
    store.turns.pass_time(SYNC_S)
    return store.finish()


def acknowledge(store: HeldStore, number: int) -> Answer:
    return store.commit([Commit(state=[Mutation("acks", b"%d" % number, b"")])], patient=True)


def test_a_record_and_the_acknowledgement_of_the_last_one_share_a_sync(store):
    """One sender that waits for each answer, one consumer that acknowledges each record: one sync for each record."""
    store.call()
    store.turns.end_turn()
    sync(store)
    for number in range(5):
        acknowledgement = acknowledge(store, number)
        store.turns.end_turn()
        assert store.sizes == [], "the sender was just answered"
        store.turns.pass_time(0.001)
        record = store.call()
        store.turns.end_turn()
        assert store.sizes == [2]
        sync(store)
        assert record.done
        assert acknowledgement.done


def test_patience_ends(store):
    store.call()
    store.turns.end_turn()
    sync(store)
    acknowledgement = acknowledge(store, 1)
    store.turns.end_turn()
    store.turns.pass_time(SYNC_S / 2)
    assert store.sizes == [1], "the sender did not come again"
    sync(store)
    assert acknowledgement.done
    acknowledge(store, 2)
    store.turns.end_turn()
    assert store.sizes == [1], "nobody has sent since"


def test_what_was_acknowledged_during_a_sync_waits_for_the_sender_of_it(store):
    store.call()
    store.turns.end_turn()
    acknowledge(store, 1)
    sync(store)
    assert store.sizes == []
    store.call()
    store.turns.end_turn()
    assert store.sizes == [2]


def test_a_closing_engine_is_not_patient(store):
    store.call()
    store.turns.end_turn()
    sync(store)
    acknowledgement = acknowledge(store, 1)
    store.turns.end_turn()
    store.sequencer.begin_closing()
    store.sequencer.answer_when_durable(Answer(), None)
    store.turns.end_turn()
    assert store.sizes[:1]
    sync(store)
    assert acknowledgement.done


def test_a_group_that_waits_for_a_sync_is_submitted_before_all_that_come_after_it(store):
    waiting: list[Callable[[], None]] = []
    proof = CommitGroup()
    store.sequencer.begin_after(waiting.append, proof)
    later = store.call(commits=3 * GROUP_BYTES_MAX // len(BATCH))
    store.turns.end_turn()
    assert not store.held
    assert not store.sequencer.is_idle
    waiting.pop()()
    assert store.held[0] is proof
    while store.held:
        assert not later.done
        store.finish()
    assert later.done
    assert store.sequencer.is_idle
