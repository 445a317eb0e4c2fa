"""The last stable offset and the aborted ranges, against the plainest model of both."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainstem.storage.contract import Aborted
from mainstem.storage.sequencer.transactions import Transactions


def test_without_transactions_everything_is_stable():
    transactions = Transactions()
    assert transactions.stable(0) == 0
    assert transactions.stable(17) == 17
    assert transactions.aborted_between(0, 17) == []


def test_an_open_transaction_holds_the_stable_offset_at_its_first_record():
    transactions = Transactions()
    transactions.begin(1, 5)
    transactions.begin(1, 9)
    assert transactions.stable(20) == 5


def test_the_earliest_of_several_open_transactions_counts():
    transactions = Transactions()
    transactions.begin(1, 5)
    transactions.begin(2, 3)
    assert transactions.stable(20) == 3
    transactions.end(2, 20, commit=True)
    assert transactions.stable(21) == 5
    transactions.end(1, 21, commit=False)
    assert transactions.stable(22) == 22


def test_a_committed_transaction_leaves_no_range():
    transactions = Transactions()
    transactions.begin(1, 5)
    assert transactions.end(1, 8, commit=True) is None
    assert transactions.aborted == []


def test_an_aborted_transaction_is_a_range_up_to_its_marker():
    transactions = Transactions()
    transactions.begin(1, 5)
    assert transactions.end(1, 8, commit=False) == Aborted(1, 5, 8)
    assert transactions.aborted_between(0, 100) == [Aborted(1, 5, 8)]


def test_a_marker_without_a_transaction_aborts_nothing():
    transactions = Transactions()
    assert transactions.end(1, 8, commit=False) is None
    assert transactions.aborted == []


def test_a_producer_may_begin_again():
    transactions = Transactions()
    transactions.begin(1, 0)
    transactions.end(1, 2, commit=False)
    transactions.begin(1, 3)
    assert transactions.stable(9) == 3
    transactions.end(1, 9, commit=False)
    assert transactions.aborted == [Aborted(1, 0, 2), Aborted(1, 3, 9)]


def test_ranges_touch_by_their_marker_and_by_their_first_record():
    transactions = Transactions()
    transactions.begin(1, 5)
    transactions.end(1, 8, commit=False)
    assert transactions.aborted_between(8, 9)
    assert transactions.aborted_between(9, 20) == []
    assert transactions.aborted_between(0, 6)
    assert transactions.aborted_between(0, 5) == []
    assert transactions.aborted_between(6, 7)


def test_what_ends_below_the_start_is_forgotten_and_nothing_else():
    transactions = Transactions()
    for producer, first, marker in [(1, 0, 4), (2, 1, 6), (3, 5, 8)]:
        transactions.begin(producer, first)
        transactions.end(producer, marker, commit=False)
    assert transactions.forget_below(6) == [Aborted(1, 0, 4)]
    assert transactions.aborted == [Aborted(2, 1, 6), Aborted(3, 5, 8)]
    assert transactions.forget_below(0) == []
    assert transactions.forget_below(100) == [Aborted(2, 1, 6), Aborted(3, 5, 8)]
    assert transactions.aborted == []


steps = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["write", "commit", "abort"])), max_size=40)


@given(steps, st.integers(0, 45), st.integers(0, 45), st.integers(0, 45))
def test_against_a_model(steps, first, end, start):
    """Each step is one record; the model keeps (producer, first, last) of what is open and what was aborted."""
    transactions = Transactions()
    opened: dict[int, int] = {}
    aborted: list[Aborted] = []
    for offset, (producer, what) in enumerate(steps):
        if what == "write":
            transactions.begin(producer, offset)
            opened.setdefault(producer, offset)
        else:
            transactions.end(producer, offset, commit=what == "commit")
            if producer in opened and what == "abort":
                aborted.append(Aborted(producer, opened[producer], offset))
            opened.pop(producer, None)
        size = offset + 1
        assert transactions.stable(size) == min([*opened.values(), size])
    assert transactions.aborted == aborted
    assert transactions.aborted_between(first, end) == [a for a in aborted if a.last >= first and a.first < end]
    assert transactions.forget_below(start) == [a for a in aborted if a.last < start]
    assert transactions.aborted == [a for a in aborted if a.last >= start]
