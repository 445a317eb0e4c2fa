"""Tails of logs: gathered from the arrivals of all logs where compiled, appended to at once as Python."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from tests.support.both_ways import both_ways

TAILS = both_ways("mainstem.storage.local.read.tail")
STATES = both_ways("mainstem.storage.sequencer.log_state")
ROWS = both_ways("mainstem.storage.sequencer.log_tail")
CONTRACTS = both_ways("mainstem.storage.contract")

LOGS = 4
LOG = st.integers(0, LOGS - 1)
BATCHES = st.lists(
    st.tuples(LOG, st.integers(1, 5), st.integers(1, 500), st.integers(-1, 1 << 45)), min_size=1, max_size=40
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("show"), BATCHES),
        st.tuples(st.just("look"), LOG),
        st.tuples(st.just("refer"), LOG),
        st.tuples(st.just("replace"), LOG),
        st.tuples(st.just("merge"), st.floats(0, 1)),
    ),
    max_size=15,
)


class Logs:
    """Logs as an engine holds them, one way."""

    def __init__(self, way: int) -> None:
        self.show_entries = TAILS[way].show_entries
        self.LogTail = ROWS[way].LogTail
        self.arrivals = ROWS[way].Arrivals()
        config = CONTRACTS[way].LogConfig()
        self.states = [STATES[way].LogState(log, config, 2, 1 << 15) for log in range(LOGS)]
        self.states[1].watchers = []
        self.noted: list[int] = []
        self.place = 0

    def show(self, batches) -> None:
        entries = []
        place = self.place
        for log, count, size, time in batches:
            state = self.states[log]
            entries.append((state.next, time, size, count, 0, 0, state, b""))
            state.next += count
            place += size
        self.show_entries(self.arrivals, entries, self.place, lambda state: self.noted.append(state.log))
        self.place = place

    def look(self, log: int) -> object:
        tail = self.states[log].tail
        if tail is None:
            return None
        rows = [tail.row(index) for index in range(len(tail))]
        middle = len(tail) // 2
        return (
            rows,
            tail.refs,
            tail.first,
            tail.bytes_from(middle),
            tail.side_by_side(middle, rows[-1][1]),
            tail.index_of(rows[middle][0]),
        )

    def refer(self, log: int) -> None:
        state = self.states[log]
        if state.tail is None:
            state.tail = self.LogTail()
        state.tail.append_ref(state.next, self.place, 10, 5)
        state.next += 1
        state.end = state.next
        self.place += 10

    def replace(self, log: int) -> None:
        self.states[log].tail = None

    def merge(self, share: float) -> None:
        place = int(self.place * share)
        self.arrivals.drop_before(place)
        for state in self.states:
            tail = state.tail
            if tail is not None:
                tail.drop_before(place)
                if not len(tail):
                    state.tail = None

    def facts(self) -> object:
        return [(state.end, state.bytes, self.look(log)) for log, state in enumerate(self.states)], self.noted


@given(STEPS)
def test_tails_are_the_same_whenever_somebody_looks(steps):
    compiled, python = Logs(0), Logs(1)
    for name, argument in steps:
        assert getattr(compiled, name)(argument) == getattr(python, name)(argument)
    assert compiled.facts() == python.facts()


@given(st.lists(LOG, min_size=1, max_size=8), st.integers(900, 1100))
def test_long_tails_are_the_same(logs, count):
    """Compiled, a log gathers by itself once a thousand batches have come."""
    compiled, python = Logs(0), Logs(1)
    for each in (compiled, python):
        for _ in range(count):
            each.show([(log, 1, 100, 7) for log in logs])
    assert compiled.facts() == python.facts()


@given(BATCHES)
def test_what_is_read_from_a_file_is_the_same(batches):
    logs, counts, sizes, times = zip(*batches, strict=True)
    head = SimpleNamespace(
        logs=array("Q", logs),
        bases=array("q", range(0, 10 * len(batches), 10)),
        counts=array("I", counts),
        sizes=array("I", sizes),
        times=array("q", times),
    )
    found = []
    for way in TAILS:
        tails, nexts = {}, {}
        way.replay_places(tails, nexts, head, 4096)
        found.append(({log: list(tail.rows) for log, tail in tails.items()}, nexts))
    assert found[0] == found[1]


@given(st.lists(st.tuples(LOG, st.integers(0, 1 << 60), st.integers(1, 1 << 31)), max_size=60), st.floats(0, 1))
def test_arrivals_are_gathered_the_same(batches, share):
    found = []
    for way in ROWS:
        arrivals = way.Arrivals()
        newest = [-1] * LOGS
        for place, (log, base, size) in enumerate(batches):
            newest[log] = arrivals.keep(newest[log], base, place, size, place + 5)
        arrivals.drop_before(int(share * len(batches)))
        tails = [arrivals.gather(number, None) for number in newest]
        found.append((newest, arrivals.first, [tail and list(tail.rows) for tail in tails]))
    assert found[0] == found[1]
