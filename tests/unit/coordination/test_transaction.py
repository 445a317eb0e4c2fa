"""A transactional id against a small model of Kafka's rules, on a log that forgets, refuses and answers late."""

from __future__ import annotations

import uuid
from collections import deque
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstem.coordination.errors import (
    FencedProducer,
    InvalidTransactionState,
    StaleProducerEpoch,
    TransactionError,
    TransactionUnderWay,
    UnknownProducer,
)
from mainstem.coordination.groups.group_offsets import CommittedOffset, TopicPlace
from mainstem.coordination.transactions.entries import (
    SCOPE,
    EntryKey,
    GroupKey,
    GroupPlace,
    Identity,
    LogKey,
    OffsetKey,
    TransactionEntry,
    TransactionState,
    decode_key,
    put_entry,
    put_group,
    put_log,
    put_offset,
)
from mainstem.coordination.transactions.transaction import EPOCH_LAST, Transaction, Transition
from mainstem.storage.contract import Mutation
from mainstem.wire.record_batch import decode_marker, read_header

NAME = "tx"
TIMEOUT_MS = 1_000
LOGS = st.integers(1, 4)
PLACE = TopicPlace(uuid.UUID(int=5), 3)


class Write(NamedTuple):
    """A batch on its way to the log."""

    log: int
    identity: Identity
    mutations: list[Mutation]
    is_stored: bool


class Model:
    """What Kafka would say, in its plainest form."""

    def __init__(self) -> None:
        self.current: Identity | None = None
        self.last: Identity | None = None
        """Who may ask again."""
        self.is_open = False
        self.outcome: bool | None = None
        """Of the last transaction of this incarnation: committed or not."""
        self.participants: set[int] = set()

    def begin(self, expected: Identity | None, new: int) -> Identity | None:
        """Who writes next; None if the asker is fenced."""
        current = self.current
        if current is not None and expected is not None and expected != current:
            if expected != self.last or self.is_open:
                return None
            self.outcome = None
            return current
        if current is None or current.epoch >= EPOCH_LAST:
            following = Identity(new, 0)
        else:
            following = Identity(current.producer, current.epoch + 1)
        self.last = expected if current is not None else None
        self._restart(following, None)
        return following

    def end(self, identity: Identity, *, commit: bool, second: bool, new: int) -> Identity | type[TransactionError]:
        current = self.current
        if current is None:
            return UnknownProducer
        is_late = second and not self.is_open and self.outcome is not None and identity == self.last
        if not is_late and identity != current:
            return UnknownProducer if identity.producer != current.producer else FencedProducer
        if not self.is_open:
            if is_late or (not second and self.outcome is not None):
                return current if commit == self.outcome else InvalidTransactionState
            if commit or not second:
                return InvalidTransactionState
        if second:
            self.last = current
            following = (
                Identity(new, 0) if current.epoch >= EPOCH_LAST else Identity(current.producer, current.epoch + 1)
            )
        else:
            self.last, following = None, current
        self._restart(following, commit)
        return following

    def _restart(self, following: Identity, outcome: bool | None) -> None:
        self.current, self.outcome, self.is_open = following, outcome, False
        self.participants = set()


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.transaction = Transaction(NAME)
        self.model = Model()
        self.stored: dict[bytes, bytes] = {}
        self.open_in: dict[int, Identity] = {}
        """Logs in which a batch waits for a marker, as the log itself knows it."""
        self.writes: deque[Write] = deque()
        self.identities = [Identity(77, 0)]
        self.now_ms = 1_000
        self.next_producer = 100
        self.group_offset = -1

    @initialize(epoch=st.sampled_from([None, 0, EPOCH_LAST - 2, EPOCH_LAST]))
    def start(self, epoch: int | None) -> None:
        if epoch is not None:
            entry = TransactionEntry(5, epoch, -1, -1, TIMEOUT_MS, TransactionState.EMPTY, -1, 0)
            self.commit([put_entry(NAME, entry)])
            self.model.current = Identity(5, epoch)
            self.identities.append(self.model.current)

    # The log

    def commit(self, mutations: list[Mutation]) -> None:
        """Durable, and answered: what was written before is answered before."""
        self.confirm_all()
        self.store(mutations)
        for mutation in mutations:
            self.transaction.replay(mutation)

    def store(self, mutations: list[Mutation]) -> None:
        for mutation in mutations:
            assert mutation.scope == SCOPE
            if mutation.value is None:
                self.stored.pop(mutation.key, None)
            else:
                self.stored[mutation.key] = mutation.value

    def finish(self, ending: Transition, *, commit: bool, expected: set[int]) -> None:
        """One commit. Each log gets one marker, of an epoch that none of its batches is above."""
        assert {append.log for append in ending.appends} == expected
        for append in ending.appends:
            header = read_header(append.batch)
            assert decode_marker(append.batch) == commit
            opened = self.open_in.pop(append.log, None)
            assert opened is None or (opened.producer, True) == (
                header.producer_id,
                opened.epoch <= header.producer_epoch,
            )
        if commit and (offset := self.transaction.offsets.get(GroupPlace("g", PLACE))):
            self.group_offset = offset.offset
        self.commit(ending.state)
        assert not self.open_in, "left open in a log"
        assert not self.transaction.is_open
        self.identities.append(ending.entry.identity)

    @rule(index=st.integers(0, 3))
    def confirm(self, index: int) -> None:
        for _ in range(min(index, len(self.writes))):
            write = self.writes.popleft()
            if write.is_stored:
                for mutation in write.mutations:
                    self.transaction.replay(mutation)

    def confirm_all(self) -> None:
        while self.writes:
            self.confirm(3)

    # Requests

    def new_producer(self) -> int:
        self.next_producer += 1
        return self.next_producer

    def someone(self, data: st.DataObject) -> Identity:
        return data.draw(st.sampled_from([self.model.current or self.identities[-1]] * 3 + self.identities[-4:]))

    @rule(data=st.data(), is_expected=st.booleans())
    def begin(self, data: st.DataObject, is_expected: bool) -> None:
        expected = self.someone(data) if is_expected else None
        participants = self.model.participants
        was_open = self.model.is_open
        new = self.new_producer()
        needs = self.transaction.needs_producer(expected)
        following = self.model.begin(expected, new)
        try:
            ending = self.transaction.decide_begin(TIMEOUT_MS, expected, new if needs else -1, self.now_ms)
        except FencedProducer:
            assert following is None
            return
        assert ending.entry.identity == following
        self.finish(ending, commit=False, expected=participants if was_open else set())

    @rule(data=st.data(), log=LOGS, implicitly=st.booleans(), is_stored=st.booleans())
    def write(self, data: st.DataObject, log: int, implicitly: bool, is_stored: bool) -> None:
        identity = self.someone(data)
        current = self.model.current
        known_logs = set(self.transaction.logs)
        try:
            mutations = self.transaction.decide_write(identity, log, self.now_ms, implicitly=implicitly)
        except UnknownProducer:
            assert current is None or current.producer != identity.producer
        except StaleProducerEpoch:
            assert current is not None
            assert identity != current
        except InvalidTransactionState:
            assert not implicitly
            assert log not in known_logs
        else:
            assert identity == current
            assert not mutations or implicitly
            self.model.is_open = True
            self.model.participants.add(log)
            if is_stored:
                self.open_in.setdefault(log, identity)
                self.store(list(mutations))
            self.writes.append(Write(log, identity, list(mutations), is_stored))

    @rule(data=st.data(), logs=st.sets(LOGS, min_size=1))
    def add(self, data: st.DataObject, logs: set[int]) -> None:
        self.confirm_all()
        if self.checked(self.someone(data)):
            self.commit(self.transaction.decide_add(logs, self.now_ms))
            self.model.is_open = True
            self.model.participants |= logs

    @rule(data=st.data(), offset=st.integers(0, 9))
    def add_offsets(self, data: st.DataObject, offset: int) -> None:
        if self.checked(self.someone(data)):
            self.commit(self.transaction.decide_add_group("g", self.now_ms))
            waiting = {GroupPlace("g", PLACE): CommittedOffset(offset, -1, "", self.now_ms)}
            self.commit(self.transaction.decide_offsets(waiting, self.now_ms))
            self.model.is_open = True

    def checked(self, identity: Identity) -> bool:
        try:
            self.transaction.check(identity)
        except UnknownProducer:
            assert self.model.current is None or self.model.current.producer != identity.producer
            return False
        except FencedProducer:
            assert identity != self.model.current
            return False
        assert identity == self.model.current
        return True

    @rule(data=st.data(), commit=st.booleans(), second=st.booleans())
    def end(self, data: st.DataObject, commit: bool, second: bool) -> None:
        self.end_as(self.someone(data), commit=commit, second=second)

    def end_as(self, identity: Identity, *, commit: bool, second: bool) -> None:
        participants, was_open = self.model.participants, self.model.is_open
        new = self.new_producer()
        outcome = self.model.end(identity, commit=commit, second=second, new=new)
        judged = self.judged(identity, commit=commit, second=second)
        if isinstance(judged, type):
            assert judged is outcome
            return
        if judged:
            assert self.transaction.entry is not None
            assert self.transaction.entry.identity == outcome
            return
        ending = self.transaction.decide_end(commit=commit, raises_epoch=second, new_producer=new, now_ms=self.now_ms)
        assert ending.entry.identity == outcome
        self.finish(ending, commit=commit, expected=participants if was_open else set())

    def judged(self, identity: Identity, *, commit: bool, second: bool) -> bool | type[TransactionError]:
        try:
            return self.transaction.is_repeated(identity, commit=commit, raises_epoch=second)
        except TransactionError as refusal:
            return type(refusal)

    @rule(passed_ms=st.sampled_from([1, 400, TIMEOUT_MS]))
    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        assert (self.transaction.due_ms is not None) == self.model.is_open
        if self.transaction.is_due(self.now_ms):
            self.end_as(self.model.current or self.identities[-1], commit=False, second=True)

    @precondition(lambda self: self.stored)
    @rule()
    def restart(self) -> None:
        """What was not stored never was, and those who wait for an answer ask again."""
        self.writes.clear()
        self.transaction = Transaction(NAME)
        for key, value in self.stored.items():
            self.transaction.replay(Mutation(SCOPE, key, value))
        assert set(self.open_in) <= self.transaction.logs, "a batch in a log that the transaction does not know"
        self.model.is_open = self.transaction.is_open
        self.model.participants = set(self.transaction.logs)

    @invariant()
    def every_open_log_is_known(self) -> None:
        assert set(self.open_in) <= self.transaction.logs | self.transaction.tried
        assert self.transaction.is_open == self.model.is_open
        identity = None if self.transaction.entry is None else self.transaction.entry.identity
        assert identity == self.model.current

    @invariant()
    def nothing_is_left_of_what_ended(self) -> None:
        if not self.model.is_open:
            assert len(self.stored) <= 1
            assert not self.transaction.offsets
            assert not self.transaction.groups


TransactionMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
test_against_the_model = TransactionMachine.TestCase


def test_nothing_comes_behind_the_end() -> None:
    transaction = Transaction(NAME)
    transaction.replay(put_entry(NAME, TransactionEntry(5, 0, -1, -1, 1, TransactionState.EMPTY, -1, 0)))
    transaction.is_ending = True
    with pytest.raises(TransactionUnderWay):
        transaction.decide_write(Identity(5, 0), 1, 0, implicitly=True)


def test_silence() -> None:
    transaction = Transaction(NAME)
    assert not transaction.is_silent(0)
    transaction.replay(put_entry(NAME, TransactionEntry(5, 0, -1, -1, 1, TransactionState.EMPTY, -1, 50)))
    assert not transaction.is_silent(49)
    assert transaction.is_silent(50)
    transaction.decide_write(Identity(5, 0), 1, 60, implicitly=True)
    assert not transaction.is_silent(100)


@pytest.mark.parametrize("name", ["tx", "", "täx/\x00"])
def test_keys(name: str) -> None:
    place = GroupPlace("gruppe-ü", PLACE)
    keys = [
        (put_entry(name, None), EntryKey(name)),
        (put_log(name, 2**63 - 1, gone=True), LogKey(name, 2**63 - 1)),
        (put_group(name, "g/ö"), GroupKey(name, "g/ö")),
        (put_offset(name, place, None), OffsetKey(name, place)),
    ]
    for mutation, key in keys:
        assert decode_key(mutation.key) == key
        assert type(decode_key(mutation.key)) is type(key)


class Kept(Transaction):
    """A transaction whose decisions are durable at once."""

    def begin(self, expected: Identity | None = None) -> Identity:
        return self.take(self.decide_begin(TIMEOUT_MS, expected, 5, 0))

    def open(self) -> None:
        for mutation in self.decide_add([1], 0):
            self.replay(mutation)

    def end(self, *, second: bool) -> Identity:
        return self.take(self.decide_end(commit=True, raises_epoch=second, new_producer=6, now_ms=0))

    def take(self, transition: Transition) -> Identity:
        for mutation in transition.state:
            self.replay(mutation)
        return transition.entry.identity


def test_who_asks_again_is_too_late_once_something_is_open() -> None:
    transaction = Kept(NAME)
    first = transaction.begin()
    second = transaction.begin(first)
    assert transaction.begin(first) == second
    transaction.open()
    with pytest.raises(FencedProducer):
        transaction.begin(first)
    assert transaction.is_open


def test_a_zombie_of_the_second_version_is_not_told_of_the_success_of_another() -> None:
    transaction = Kept(NAME)
    zombie = transaction.begin()
    transaction.open()
    successor = transaction.begin()
    transaction.open()
    assert transaction.end(second=False) == successor
    with pytest.raises(FencedProducer):
        transaction.is_repeated(zombie, commit=True, raises_epoch=True)


def test_the_last_epoch_is_followed_by_another_producer() -> None:
    transaction = Kept(NAME)
    last = TransactionEntry(5, EPOCH_LAST, -1, -1, TIMEOUT_MS, TransactionState.EMPTY, -1, 0)
    transaction.replay(put_entry(NAME, last))
    transaction.open()
    assert transaction.end(second=True) == Identity(6, 0)
    assert transaction.is_repeated(last.identity, commit=True, raises_epoch=True)
    assert transaction.begin(last.identity) == Identity(6, 0), "who missed the answer learns of it here too"
