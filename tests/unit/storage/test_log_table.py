"""Logs are found by their number, whichever came and went before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import UnknownLog
from mainstem.model.identity import LOG_ID_MAX
from mainstem.storage.contract import Append, Commit, Committed, CreateLog, DeleteLog
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.ledger import Ledger
from mainstem.storage.sequencer.log_state import FLUSH_SYNC
from mainstem.wire.record_batch import encode_batch

BATCH = bytes(encode_batch([(0, 1_700_000_000_000, None, b"value", ())]))


class Book:
    """A ledger, which finds a log whenever one batch is written to it."""

    def __init__(self) -> None:
        self.ledger = Ledger(
            default_rank=FLUSH_SYNC, commit_bytes_max=1 << 20, copy_bytes_max=1 << 15, now_ms=lambda: 0
        )
        self.group = CommitGroup()

    def create(self, log: int) -> None:
        self.ledger.sequence(Commit(changes=[CreateLog(log)]), self.group)

    def delete(self, log: int) -> None:
        self.ledger.sequence(Commit(changes=[DeleteLog(log)]), self.group)

    def has(self, logs: list[object]) -> list[bool]:
        """Of each, whether a batch was taken; by one call, as callers with many of them do."""
        results: list[object] = []
        commits = [Commit((Append(log, BATCH),)) for log in logs]
        self.ledger.sequence_until_full(commits, 0, self.group, 1 << 30, results)
        taken = [isinstance(result, Committed) for result in results]
        assert all(has or isinstance(result, UnknownLog) for has, result in zip(taken, results, strict=True))
        for entry, log in zip(
            self.group.entries[len(self.group.entries) - sum(taken) :], found(logs, taken), strict=True
        ):
            assert entry[6].log == log
        return taken


def found(logs: list[object], taken: list[bool]) -> list[object]:
    return [log for log, has in zip(logs, taken, strict=True) if has]


NUMBERS = st.one_of(
    st.integers(0, 60), st.integers(0, 60).map(lambda n: n << 32), st.integers(0, 60).map(lambda n: LOG_ID_MAX - n)
)


@given(st.lists(st.tuples(NUMBERS, st.booleans()), max_size=200))
def test_those_that_are_there_are_found_and_no_others(steps):
    book = Book()
    there: set[int] = set()
    used: set[int] = set()
    for log, goes in steps:
        if goes and log in there:
            book.delete(log)
            there.remove(log)
        elif log not in used:
            book.create(log)
            there.add(log)
            used.add(log)
    asked = sorted(used | {log for log, _ in steps} | {61, 1 << 40})
    assert book.has(asked) == [log in there for log in asked]
    assert set(book.ledger.logs) == there


@pytest.mark.parametrize("stride", [1, 64, 1 << 16, 1 << 40])
def test_thousands_with_any_distance(stride):
    book = Book()
    logs = [stride * number for number in range(5_000)]
    for log in logs:
        book.create(log)
    for log in logs[::3]:
        book.delete(log)
    assert book.has(logs) == [bool(number % 3) for number in range(5_000)]


@pytest.mark.parametrize("log", [-1, -7, LOG_ID_MAX + 1, 1 << 200, -(1 << 200), "1", 1.5, None])
def test_what_is_no_number_of_a_log_is_unknown(log):
    book = Book()
    book.create(1)
    assert book.has([log, 1, log]) == [False, True, False]
    assert book.has([log]) == [False]
