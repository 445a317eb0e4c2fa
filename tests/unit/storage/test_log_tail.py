"""The tail of a log: its rows are all there, in order, whenever somebody looks."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mainstem import compiled
from mainstem.storage.contract import LogConfig
from mainstem.storage.local.read.tail import show_entries
from mainstem.storage.sequencer.log_state import FLUSH_SYNC, LogState
from mainstem.storage.sequencer.log_tail import SPARE_CHUNKS_MAX, Arrivals, LogTail

SIZE = 100
CHUNK_ROWS = 1 << 14

Row = tuple[int, int, int, int]


def new_state(log: int = 7) -> LogState:
    return LogState(log, LogConfig(), FLUSH_SYNC, 1 << 15)


def show(arrivals: Arrivals, state: LogState, first: int, count: int) -> None:
    """Batches of one record each, from an offset on; each lies where its offset says."""
    entries = [(base, 1_000 + base, SIZE, 1, 0, 0, state, b"") for base in range(first, first + count)]
    show_entries(arrivals, entries, first * SIZE, lambda state: None)


def rows_of(tail: LogTail | None) -> list[Row]:
    return [] if tail is None else [tail.row(index) for index in range(len(tail))]


def rows(state: LogState) -> list[Row]:
    return rows_of(state.tail)


def expected(count: int) -> list[Row]:
    return [(base, base * SIZE, SIZE, 1_000 + base) for base in range(count)]


def drop(arrivals: Arrivals, states: list[LogState], place: int) -> None:
    """As a merge does."""
    arrivals.drop_before(place)
    for state in states:
        visit(state, place)


def visit(state: LogState, place: int) -> None:
    if state.own_tail is not None:
        state.own_tail.drop_before(place)
        if not len(state.own_tail):
            state.own_tail = None


@pytest.fixture
def arrivals() -> Arrivals:
    return Arrivals()


@pytest.mark.parametrize("count", [0, 1, 9, 1023, 1024, 1025, 5_000])
def test_what_was_shown_is_in_the_tail(arrivals, count):
    state = new_state()
    show(arrivals, state, 0, count)
    assert rows(state) == expected(count)
    assert (state.end, state.bytes) == (count, count * SIZE)


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_it_is_whole_whenever_somebody_looks(arrivals, step):
    state = new_state()
    for first in range(0, 40, step):
        show(arrivals, state, first, step)
        assert rows(state) == expected(first + step)


def test_logs_of_one_group_do_not_mix(arrivals):
    states = [new_state(log) for log in range(3)]
    entries = [(base, 0, SIZE, 1, 0, 0, state, b"") for base in range(6) for state in states]
    show_entries(arrivals, entries, 0, lambda state: None)
    for state in states:
        assert rows(state) == [(base, (base * 3 + state.log) * SIZE, SIZE, 0) for base in range(6)]


@pytest.mark.skipif(not compiled.in_use, reason="as Python, a batch is in its log's tail at once")
def test_logs_that_are_written_to_in_turns_do_not_gather_in_the_same_moment(arrivals):
    """All of them at once would hold the event loop: ten thousand logs did for a tenth of a second."""
    states = [new_state(log) for log in range(256)]

    def gathered() -> list[int]:
        return [0 if state.own_tail is None else len(state.own_tail) for state in states]

    before, times = gathered(), 0
    for base in range(2_500):
        entries = [(base, 0, SIZE, 1, 0, 0, state, b"") for state in states]
        show_entries(arrivals, entries, base * SIZE * len(states), lambda state: None)
        if base % 10 == 9:
            now = gathered()
            moved = sum(old != new for old, new in zip(before, now, strict=True))
            assert moved <= len(states) // 10
            before, times = now, times + moved
    assert times >= 2 * len(states)
    assert [len(rows(state)) for state in states] == [2_500] * len(states)


def test_a_reference_comes_behind_what_was_shown_before_it(arrivals):
    state = new_state()
    show(arrivals, state, 0, 3)
    state.tail.append_ref(3, 300, SIZE, 1_003)
    show(arrivals, state, 4, 2)
    assert rows(state) == expected(6)
    assert state.tail.refs == {3}


def test_merged_batches_go_and_later_ones_stay(arrivals):
    state = new_state()
    show(arrivals, state, 0, 6)
    drop(arrivals, [state], 5 * SIZE)
    assert rows(state) == expected(6)[5:]
    show(arrivals, state, 6, 2)
    drop(arrivals, [state], 8 * SIZE)
    assert state.tail is None
    show(arrivals, state, 8, 1)
    assert rows(state) == expected(9)[8:]


def test_references_go_with_what_is_merged_around_them(arrivals):
    state = new_state()
    show(arrivals, state, 0, 2)
    state.tail.append_ref(2, 200, SIZE, 1_002)
    show(arrivals, state, 3, 4)
    arrivals.drop_before(5 * SIZE)
    visit(state, 5 * SIZE)
    assert rows(state) == expected(7)[5:]
    assert state.tail.refs is None


def test_another_tail_takes_the_place_of_all_that_was_there(arrivals):
    state = new_state()
    show(arrivals, state, 0, 2)
    state.tail = other = LogTail()
    assert rows(state) == []
    other.append(9, 900, SIZE, 1_009)
    assert rows(state) == [(9, 900, SIZE, 1_009)]


def test_what_has_gone_gives_its_memory_to_what_comes(arrivals):
    newest = -1
    for number in range(4 * CHUNK_ROWS):
        newest = arrivals.keep(newest, number, number * SIZE, SIZE, number)
    arrivals.drop_before(4 * CHUNK_ROWS * SIZE)
    assert arrivals.gather(newest, None) is None
    assert arrivals.chunks == SPARE_CHUNKS_MAX
    for number in range(4 * CHUNK_ROWS, 5 * CHUNK_ROWS):
        newest = arrivals.keep(newest, number, number * SIZE, SIZE, number)
    assert arrivals.chunks == SPARE_CHUNKS_MAX
    tail = arrivals.gather(newest, None)
    assert len(tail) == CHUNK_ROWS
    assert (tail.first, tail.row(CHUNK_ROWS - 1)[0]) == (4 * CHUNK_ROWS, 5 * CHUNK_ROWS - 1)


class Tails(RuleBasedStateMachine):
    """Logs that are written, looked at and merged in any order, one of them after the other; against plain lists."""

    LOGS = 5

    def __init__(self) -> None:
        super().__init__()
        self.arrivals = Arrivals()
        self.others = Arrivals()
        """The same, gathered by itself: in pure Python, logs do without."""
        self.states = [new_state(log) for log in range(self.LOGS)]
        self.rows: list[list[Row]] = [[] for _ in self.states]
        self.newest: list[int] = [-1] * self.LOGS
        self.gathered: list[LogTail | None] = [None] * self.LOGS
        self.place = 0
        self.dropped = 0
        self.unvisited: list[int] = []

    @rule(logs=st.lists(st.integers(0, LOGS - 1), min_size=1, max_size=40))
    def write(self, logs: list[int]) -> None:
        entries = []
        place = self.place
        for log in logs:
            state = self.states[log]
            entry = (state.next, place, SIZE, 7)
            state.next += 1
            entries.append((entry[0], entry[3], SIZE, 1, 0, 0, state, b""))
            self.rows[log].append(entry)
            self.newest[log] = self.others.keep(self.newest[log], *entry)
            place += SIZE
        show_entries(self.arrivals, entries, self.place, lambda state: None)
        self.place = place

    @rule(log=st.integers(0, LOGS - 1))
    def look(self, log: int) -> None:
        self.check(log, rows(self.states[log]))

    @rule(log=st.integers(0, LOGS - 1))
    def gather(self, log: int) -> None:
        if self.newest[log] >= 0:
            self.gathered[log] = self.others.gather(self.newest[log], self.gathered[log])
            self.newest[log] = -1
        self.check(log, rows_of(self.gathered[log]))

    def check(self, log: int, found: list[Row]) -> None:
        """All that is not merged, and nothing older than what may still be waiting for its visit; no gap."""
        assert found == self.rows[log][len(self.rows[log]) - len(found) :]
        wanted = [row for row in self.rows[log] if row[1] >= self.dropped]
        assert found[len(found) - len(wanted) :] == wanted
        if log not in self.unvisited:
            assert found == wanted

    @rule(share=st.floats(0, 1))
    def begin_merge(self, share: float) -> None:
        while self.unvisited:
            self.visit()
        self.dropped = max(self.dropped, int(self.place * share) // SIZE * SIZE)
        self.arrivals.drop_before(self.dropped)
        self.others.drop_before(self.dropped)
        self.unvisited = list(range(self.LOGS))

    @rule()
    def visit(self) -> None:
        if self.unvisited:
            log = self.unvisited.pop(0)
            visit(self.states[log], self.dropped)
            if (tail := self.gathered[log]) is not None:
                tail.drop_before(self.dropped)

    @invariant()
    def ends_are_known(self) -> None:
        assert all(state.end == state.next for state in self.states)


TestTails = Tails.TestCase
TestTails.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
