"""A Commit of one batch is taken the same way, however its parts are given."""

from __future__ import annotations

from collections import UserList

import pytest

from mainstem.model.errors import UnknownLog
from mainstem.storage.contract import Append, Commit, Committed, CreateLog, DeleteLog, Fence, Mutation
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.ledger import Ledger
from mainstem.storage.sequencer.log_state import FLUSH_SYNC
from mainstem.wire.record_batch import encode_batch

BATCH = bytes(encode_batch([(0, 1_700_000_000_000, None, b"value", ())]))


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger(default_rank=FLUSH_SYNC, commit_bytes_max=1 << 20, copy_bytes_max=1 << 15, now_ms=lambda: 0)
    ledger.sequence(Commit(changes=[CreateLog(log) for log in range(1, 4)]), CommitGroup())
    return ledger


def sequence(ledger: Ledger, commits) -> list:
    group, results = CommitGroup(), []
    assert ledger.sequence_until_full(commits, 0, group, 1 << 20, results) == len(commits)
    assert all(entry[6] is ledger.logs.get(entry[6].log, entry[6]) for entry in group.entries)
    return [list(result.bases) if isinstance(result, Committed) else type(result) for result in results]


@pytest.mark.parametrize("kind", [tuple, list, UserList])
def test_any_sequence_of_appends(ledger, kind):
    commits = [Commit(kind([Append(log, BATCH)])) for log in (1, 2, 1)]
    assert sequence(ledger, commits) == [[0], [0], [1]]


@pytest.mark.parametrize("kind", [tuple, list, UserList])
def test_any_sequence_of_commits(ledger, kind):
    assert sequence(ledger, kind([Commit((Append(1, BATCH),)), Commit((Append(1, BATCH),))])) == [[0], [1]]


@pytest.mark.parametrize("batch", [BATCH, bytearray(BATCH), memoryview(BATCH)])
def test_any_buffer(ledger, batch):
    assert sequence(ledger, [Commit((Append(1, batch),)), Commit([Append(1, batch)])]) == [[0], [1]]


def test_empty_lists_are_nothing_else(ledger):
    commits = [Commit([Append(1, BATCH)], refers=[], state=[], fences=[], changes=[])] * 2
    assert sequence(ledger, commits) == [[0], [1]]


def test_what_comes_with_the_batch_is_not_overlooked(ledger):
    commits = [
        Commit((Append(1, BATCH),), state=(Mutation("scope", b"key", b"value"),)),
        Commit((Append(1, BATCH),), fences=(Fence("role", 0),)),
        Commit((Append(1, BATCH),), changes=(CreateLog(9),)),
        Commit((Append(1, BATCH), Append(2, BATCH))),
        Commit(),
        Commit((Append(9, BATCH),)),
    ]
    assert sequence(ledger, commits) == [[0], [1], [2], [3, 0], [], [0]]
    assert ledger.scopes["scope"] == {b"key": b"value"}


def test_a_log_may_go_between_two_commits_of_one_call(ledger):
    commits = [
        Commit((Append(1, BATCH),)),
        Commit((Append(2, BATCH),)),
        Commit(changes=(DeleteLog(2),)),
        Commit((Append(2, BATCH),)),
        Commit((Append(1, BATCH),)),
        Commit((Append(404, BATCH),)),
    ]
    assert sequence(ledger, commits) == [[0], [0], [], UnknownLog, [1], UnknownLog]
