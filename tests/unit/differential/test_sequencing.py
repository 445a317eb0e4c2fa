"""Commits are taken or refused the same, with the same offsets, however the ledger looks at them."""

from __future__ import annotations

from collections import UserList

from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.identity import LOG_ID_MAX
from mainstem.wire.record_batch import encode_batch
from tests.support.both_ways import both_ways

LEDGERS = both_ways("mainstem.storage.sequencer.ledger")
GROUPS = both_ways("mainstem.storage.sequencer.commit_group")
CONTRACTS = both_ways("mainstem.storage.contract")
TABLES = both_ways("mainstem.storage.sequencer.log_table")
STATES = both_ways("mainstem.storage.sequencer.log_state")

LOGS = st.sampled_from((1, 2, 3, 1 << 40, LOG_ID_MAX)) | st.integers(-1, 5)
FIELDS = (8, 11, 12, 16, 17, 20, 21, 22, 23, 26, 27, 35, 43, 50, 51, 53, 57, 60, 61)
"""Where the fields of a batch header begin or end."""


@st.composite
def batches(draw) -> bytes:
    """A batch, mostly one that is in order."""
    count = draw(st.integers(1, 3))
    records = [(number, draw(st.integers(-1, 1 << 42)), None, b"v" * number, ()) for number in range(count)]
    producer = {}
    if draw(st.integers(0, 3)) == 0:
        producer = {
            "producer_id": draw(st.integers(0, 2)),
            "producer_epoch": 0,
            "base_sequence": draw(st.integers(0, 2)),
        }
    batch = encode_batch(records, compression=draw(st.sampled_from((0, 0, 0, 1, 4))), **producer)
    if draw(st.integers(0, 2)) == 0:
        at = draw(st.sampled_from(FIELDS) | st.integers(0, len(batch) - 1))
        batch[min(at, len(batch) - 1)] ^= 1 << draw(st.integers(0, 7))
    return bytes(batch[: draw(st.sampled_from((None, None, None, 60, 61, 20)))])


PARTS = st.tuples(
    st.sampled_from((tuple, list, UserList)),
    st.sampled_from((bytes, bytearray, memoryview)),
    st.lists(st.tuples(LOGS, batches()), max_size=2),
    st.lists(st.integers(0, 3), max_size=1),
    st.sampled_from((None, None, None, None, "create", "delete", "mutate", "fence")),
    LOGS,
)


class Book:
    """A ledger, one way."""

    def __init__(self, way: int) -> None:
        self.contract = CONTRACTS[way]
        self.ledger = LEDGERS[way].Ledger(default_rank=2, commit_bytes_max=4096, copy_bytes_max=200, now_ms=lambda: 7)
        self.group = GROUPS[way].CommitGroup()
        created = [self.contract.CreateLog(log) for log in (1, 2, 1 << 40, LOG_ID_MAX)]
        config = self.contract.LogConfig(compact=True)
        created.append(self.contract.CreateLog(3, config))
        self.ledger.sequence(self.contract.Commit(changes=created), self.group)

    def commit(self, kind, buffer, appends, refers, extra, log):
        contract = self.contract
        fields = {"appends": kind([contract.Append(to, buffer(batch)) for to, batch in appends])}
        fields["refers"] = kind([contract.Refer(log, append) for append in refers])
        if extra == "create":
            fields["changes"] = kind([contract.CreateLog(log)])
        elif extra == "delete":
            fields["changes"] = kind([contract.DeleteLog(log)])
        elif extra == "mutate":
            fields["state"] = kind([contract.Mutation("scope", b"key", b"value")])
        elif extra == "fence":
            fields["fences"] = kind([contract.Fence("role", 0)])
        return contract.Commit(**fields)

    def sequence(self, given_commits, first: int, bytes_max: int) -> object:
        commits = [self.commit(*parts) for parts in given_commits]
        results: list[object] = []
        end = self.ledger.sequence_until_full(commits, first, self.group, bytes_max, results)
        return end, [
            (type(result).__name__, str(result))
            if isinstance(result, Exception)
            else (list(result.bases), list(result.repeated))
            for result in results
        ]

    def facts(self) -> object:
        group = self.group
        return (
            [(*entry[:6], entry[6].log, bytes(entry[7])) for entry in group.entries],
            [(*entry[:8], entry[8].log, entry[9]) for entry in group.refs],
            group.state,
            group.bytes,
            group.rank,
            {log: (state.next, state.start) for log, state in self.ledger.logs.items()},
            self.ledger.scopes,
        )


@given(st.lists(PARTS, max_size=12), st.integers(0, 2), st.sampled_from((1, 300, 1 << 20)), st.booleans())
def test_commits_have_the_same_results(commits, first, bytes_max, full):
    found = []
    for way in range(2):
        book = Book(way)
        book.ledger.full = full
        found.append((book.sequence(commits, min(first, len(commits)), bytes_max), book.facts()))
    assert found[0] == found[1]


@given(st.lists(batches(), min_size=1, max_size=200))
def test_many_batches_of_one_call_have_the_same_results(given_batches):
    commits = [(tuple, bytes, [(number % 4, batch)], [], None, 0) for number, batch in enumerate(given_batches)]
    found = []
    for way in range(2):
        book = Book(way)
        found.append((book.sequence(commits, 0, 1 << 20), book.facts()))
    assert found[0] == found[1]


NUMBERS = st.integers(0, 40).map(lambda n: n << 32) | st.integers(0, 40).map(lambda n: LOG_ID_MAX - n)


@given(st.lists(st.tuples(st.integers(0, 60) | NUMBERS, st.booleans()), max_size=200))
def test_logs_are_found_the_same(steps):
    found = []
    for way in range(2):
        book = Book(way)
        table = TABLES[way].LogTable()
        config = CONTRACTS[way].LogConfig()
        for log, goes in steps:
            if log not in table:
                table.add(STATES[way].LogState(log, config, 2, 1))
            elif goes:
                table.remove(log)
        book.ledger.logs = table
        asked = sorted({log for log, _ in steps} | {61, 1 << 50})
        batch = bytes(encode_batch([(0, 5, None, b"v", ())]))
        commits = [(tuple, bytes, [(log, batch)], [], None, 0) for log in asked]
        found.append((sorted(table), book.sequence(commits, 0, 1 << 20)))
    assert found[0] == found[1]
