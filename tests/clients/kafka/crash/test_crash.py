"""Five kills; `python -m tests.clients.kafka.crash --cycles 200` for more. And proof that what must not happen is noticed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.kafka.crash.history import (
    KafkaHistory,
    check_offsets,
    check_transaction_offsets,
    check_transactions,
    check_values,
)
from tests.clients.kafka.crash.victim import kafka_at_work
from tests.support.crashing.driver import CrashTest, forgetting
from tests.support.crashing.promises import Broken

CYCLES = 5
Entries = dict[int, list[tuple[int, bytes]]]


@pytest.mark.conformance
@pytest.mark.slow
def test_kills_under_load_lose_double_and_tear_nothing(tmp_path: Path) -> None:
    test = CrashTest(kafka_at_work, tmp_path, seed=1)
    test.run(CYCLES)
    assert test.totals["acknowledged"] > CYCLES * 20
    assert test.totals["transactions"] > CYCLES * 5
    assert test.totals["offsets"] > CYCLES * 10
    assert test.totals["settled"] > CYCLES * 10


@pytest.mark.conformance
@pytest.mark.slow
def test_a_disk_that_forgets_what_it_had_synced_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(Broken):
        CrashTest(kafka_at_work, tmp_path, seed=1, between=forgetting(tmp_path)).run(4)


def sound() -> tuple[KafkaHistory, Entries, Entries]:
    """A history, and what is found after it: values in two partitions, transactions in three."""
    history = KafkaHistory(
        acknowledged={b"0-0": (0, 0), b"0-1": (1, 0), b"0-2": (0, 1)},
        commits={b"0-0": True, b"0-2": False},
        aborts={b"0-1"},
        group_offsets={0: 1},
        group_values={b"0-0", b"0-1", b"0-2"},
        group_transactions={b"0-0"},
        share_values={b"0-0", b"0-1", b"0-2"},
        share_settled={b"0-0"},
    )
    values = {0: [(0, b"0-0"), (1, b"0-2")], 1: [(0, b"0-1")]}
    transactions = {partition: [(0, b"0-0")] for partition in range(3)}
    return history, values, transactions


def test_a_sound_history_passes() -> None:
    history, values, transactions = sound()
    check_values(history, values)
    check_transactions(history, transactions)
    check_transaction_offsets(transactions, {b"0": 0})
    check_offsets(history.group_offsets, {0: 1})


def test_a_commit_without_an_answer_may_be_there() -> None:
    history, _, transactions = sound()
    for entries in transactions.values():
        entries.append((4, b"0-2"))
    history.group_transactions.add(b"0-2")
    check_transactions(history, transactions)


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (lambda found: found[0].pop(), "there is None"),
        (lambda found: found.update({1: [(0, b"0-3")]}), "there is b'0-3'"),
        (lambda found: found[0].append((2, b"0-2")), "follows number 2"),
        (lambda found: found[1].append((1, b"0-2")), "stored twice"),
        (lambda found: found[1].append((1, b"0-5")), "never given to the group"),
    ],
)
def test_values_that_disagree_are_noticed(tamper: Callable[[Entries], None], says: str) -> None:
    history, values, _ = sound()
    tamper(values)
    with pytest.raises(Broken, match=says):
        check_values(history, values)


def test_values_that_the_group_saw_and_nobody_sees_again_are_noticed() -> None:
    history, values, _ = sound()
    history.group_values.add(b"0-9")
    with pytest.raises(Broken, match="and gone"):
        check_values(history, values)


def test_values_that_are_given_again_to_a_share_group_are_noticed() -> None:
    history, values, _ = sound()
    history.share_repeated.add(b"0-0")
    with pytest.raises(Broken, match="given again"):
        check_values(history, values)


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (lambda found: found[0].clear(), "torn"),
        (lambda found: found[2].append((3, b"0-0")), "2 times"),
        (lambda found: found[1].append((3, b"0-1")), "aborted, and is read"),
        (lambda found: [found[partition].clear() for partition in found], "was answered"),
        (lambda found: [found[partition].append((3, b"0-2")) for partition in found], "never given to the group"),
    ],
)
def test_transactions_that_disagree_are_noticed(tamper: Callable[[Entries], None], says: str) -> None:
    history, _, transactions = sound()
    tamper(transactions)
    with pytest.raises(Broken, match=says):
        check_transactions(history, transactions)


@pytest.mark.parametrize("offset", [-1, 1])
def test_an_offset_that_went_without_its_transaction_is_noticed(offset: int) -> None:
    _, _, transactions = sound()
    with pytest.raises(Broken, match="its last transaction is 0"):
        check_transaction_offsets(transactions, {b"0": offset})


@pytest.mark.parametrize("found", [{}, {0: 0}])
def test_a_committed_offset_gone_back_is_noticed(found: dict[int, int]) -> None:
    history, _, _ = sound()
    with pytest.raises(Broken, match="offset 1 was committed"):
        check_offsets(history.group_offsets, found)
