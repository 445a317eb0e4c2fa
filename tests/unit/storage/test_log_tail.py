"""The tail of a log: its rows are all there, in order, whenever somebody looks."""

from __future__ import annotations

import pytest

from mainstem.storage.contract import LogConfig
from mainstem.storage.local.tail import LogTail, show_entries
from mainstem.storage.log_state import FLUSH_SYNC, LogState

SIZE = 100


def new_state(log: int = 7) -> LogState:
    return LogState(log, LogConfig(), FLUSH_SYNC, 1 << 15)


def show(state: LogState, first: int, count: int) -> None:
    """Batches of one record each, from an offset on; each lies where its offset says."""
    entries = [(state.log, base, 1_000 + base, SIZE, 1, 0, 0, state, b"") for base in range(first, first + count)]
    show_entries(entries, first * SIZE, lambda state: None)


def rows(state: LogState) -> list[tuple[int, int, int, int]]:
    tail = state.tail
    return [] if tail is None else [tail.row(index) for index in range(len(tail))]


def expected(count: int) -> list[tuple[int, int, int, int]]:
    return [(base, base * SIZE, SIZE, 1_000 + base) for base in range(count)]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 9, 100])
def test_what_was_shown_is_in_the_tail(count):
    state = new_state()
    show(state, 0, count)
    assert rows(state) == expected(count)
    assert (state.end, state.bytes) == (count, count * SIZE)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7])
def test_it_is_whole_whenever_somebody_looks(step):
    state = new_state()
    for first in range(0, 40, step):
        show(state, first, step)
        assert rows(state) == expected(first + step)


def test_logs_of_one_group_do_not_mix():
    states = [new_state(log) for log in range(3)]
    entries = [(state.log, base, 0, SIZE, 1, 0, 0, state, b"") for base in range(6) for state in states]
    show_entries(entries, 0, lambda state: None)
    for state in states:
        assert rows(state) == [(base, (base * 3 + state.log) * SIZE, SIZE, 0) for base in range(6)]


def test_a_reference_comes_behind_what_was_shown_before_it():
    state = new_state()
    show(state, 0, 3)
    state.tail.append_ref(3, 300, SIZE, 1_003)
    show(state, 4, 2)
    assert rows(state) == expected(6)
    assert state.tail.refs == {3}


def test_merged_batches_go_and_later_ones_stay():
    state = new_state()
    show(state, 0, 6)
    state.tail.drop_before(5 * SIZE)
    assert rows(state) == expected(6)[5:]
    show(state, 6, 2)
    state.tail.drop_before(8 * SIZE)
    assert not len(state.tail)
    state.tail = None
    assert state.tail is None
    show(state, 8, 1)
    assert rows(state) == expected(9)[8:]


def test_another_tail_takes_the_place_of_all_that_was_there():
    state = new_state()
    show(state, 0, 2)
    state.tail = other = LogTail()
    assert rows(state) == []
    other.append(9, 900, SIZE, 1_009)
    assert rows(state) == [(9, 900, SIZE, 1_009)]
