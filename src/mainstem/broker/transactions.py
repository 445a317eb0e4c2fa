"""Transactions: batches in many logs, and offsets of groups, that count together or not at all.

The end of a transaction is one commit: its markers, its offsets and its state. What is asked in one name is dealt with one
after the other, each on what the one before has made durable; only writes do not wait (see `coordination.transaction`), and
are refused while the transaction is being ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from mainstem.broker.clock import Clock, Timer
from mainstem.broker.groups import CommittedOffset, Groups, TopicPlace
from mainstem.broker.producers import Producers
from mainstem.broker.topics import Topic
from mainstem.coordination.errors import (
    InvalidTransactionState,
    InvalidTransactionTimeout,
    StaleProducerEpoch,
    UnknownProducer,
    UnknownTransaction,
)
from mainstem.coordination.group_offsets import GroupRecord
from mainstem.coordination.name_pattern import NamePattern
from mainstem.coordination.transaction import Transaction, Transition
from mainstem.coordination.transaction_entries import (
    NO_PRODUCER,
    SCOPE,
    GroupPlace,
    Identity,
    TransactionState,
    decode_key,
)
from mainstem.model.errors import MainstemError, UnknownLog
from mainstem.storage.contract import Append, Commit, CommitResult, Engine, Mutation

__all__ = ["CommitBy", "Identity", "NamePattern", "Transaction", "TransactionRules", "TransactionState", "Transactions"]

log = logging.getLogger(__name__)

RETRY_S = 10
"""After an abort that the log refused."""
EXPIRY_CHECK_S = 3_600
DELETED_LOG_ATTEMPTS = 3

Offsets: TypeAlias = Mapping[TopicPlace, CommittedOffset]
Decide: TypeAlias = Callable[[Collection[int]], Transition]
"""The end of a transaction, given which of its logs are gone."""
CommitBy: TypeAlias = Callable[[Commit], Awaitable[CommitResult]]
"""Makes a commit, with more in it than it was given."""


class TransactionRules(msgspec.Struct, frozen=True):
    """How long a transaction may last, and a transactional id be silent."""

    timeout_ms_max: int = 900_000
    name_expiry_ms: int = 604_800_000


RULES = TransactionRules()


class _Held:
    """A transaction with its lane and its timer."""

    __slots__ = ("lane", "timer", "transaction", "users")

    def __init__(self, name: str) -> None:
        self.transaction = Transaction(name)
        self.lane = asyncio.Lock()
        self.users = 0
        """Those in the lane, and those who wait for it."""
        self.timer: Timer | None = None


class Transactions:
    """All transactions of a broker."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        producers: Producers,
        groups: Groups,
        topics: Mapping[UUID, Topic],
        rules: TransactionRules = RULES,
    ) -> None:
        self._engine = engine
        self._now_ms = clock.now_ms
        self._call_later = clock.call_later
        self._producers = producers
        self._groups = groups
        self._topics = topics
        self._rules = rules
        self._held: dict[str, _Held] = {}
        self._with_offsets: set[str] = set()
        """Names of open transactions that hold offsets: few among many."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Take back what is stored; a transaction that was open goes on, until its time has passed."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self._hold(decode_key(key).name).transaction.replay(Mutation(SCOPE, key, value))
        for name, held in self._held.items():
            self._arm(held)
            if held.transaction.offsets:
                self._with_offsets.add(name)
        self._call_later(EXPIRY_CHECK_S, self._expiry_due)

    # Questions: all that is shown is durable

    def known(self) -> list[Transaction]:
        """Of every transactional id."""
        return [held.transaction for held in self._held.values() if held.transaction.entry is not None]

    def get(self, name: str) -> Transaction:
        """One of them. Raises UnknownTransaction."""
        held = self._held.get(name)
        if held is None or held.transaction.entry is None:
            raise UnknownTransaction(f"transactional id {name}")
        return held.transaction

    def pending(self, group: str) -> set[TopicPlace]:
        """Places of which an open transaction holds an offset that may still become the committed one."""
        return {
            place
            for name in self._with_offsets
            for of_group, place in self._held[name].transaction.offsets
            if of_group == group
        }

    def is_added(self, name: str, identity: Identity, log: int) -> bool:
        """Whether a log takes part. Raises UnknownProducer, FencedProducer."""
        return log in self._checked(name, identity).logs

    # Writing

    def admit(self, name: str, identity: Identity, append: Append, *, implicitly: bool) -> Commit:
        """Let a batch into the transaction. A Commit with state is given to `confirm` once it is durable.

        Without `implicitly`, the log was to be added before. Raises kinds of TransactionError.
        """
        held = self._held.get(name)
        if held is None:
            raise UnknownProducer(f"transactional id {name}")
        mutations = held.transaction.decide_write(identity, append.log, self._now_ms(), implicitly=implicitly)
        if mutations:
            self._arm(held)
        return Commit((append,), state=mutations)

    def confirm(self, name: str, commit: Commit) -> None:
        """What `admit` answered is durable."""
        transaction = self._held[name].transaction
        for mutation in commit.state:
            transaction.replay(mutation)

    # Changes. All of them raise kinds of TransactionError, and what the log refuses.

    async def begin(self, name: str, timeout_ms: int, expected: Identity | None) -> Identity:
        """Another incarnation of the producer of this name; the ones before are fenced, and what they left is aborted."""
        if not 0 < timeout_ms <= self._rules.timeout_ms_max:
            raise InvalidTransactionTimeout(f"{timeout_ms} ms is not within 1 and {self._rules.timeout_ms_max}")
        async with self._turn(name) as held:
            transaction = held.transaction
            new = await self._producers.new_id() if transaction.needs_producer(expected) else NO_PRODUCER

            def decide(gone: Collection[int]) -> Transition:
                return transaction.decide_begin(timeout_ms, expected, new, self._now_ms(), gone)

            return await self._end(transaction, decide)

    async def add(self, name: str, identity: Identity, logs: Sequence[int]) -> None:
        """Logs take part."""
        async with self._turn(name) as held:
            transaction = self._checked(name, identity)
            await self._change(held, transaction.decide_add(logs, self._now_ms()))

    async def add_group(self, name: str, identity: Identity, group: str) -> None:
        """Offsets of the group may take part."""
        async with self._turn(name) as held:
            transaction = self._checked(name, identity)
            await self._change(held, transaction.decide_add_group(group, self._now_ms()))

    async def add_offsets(
        self, name: str, identity: Identity, group: str, offsets: Offsets, *, implicitly: bool
    ) -> None:
        """Offsets that count once the transaction commits. Without `implicitly`, the group was to be added before."""
        async with self._turn(name) as held:
            transaction = self._checked(name, identity)
            if not implicitly and group not in transaction.groups:
                raise InvalidTransactionState(f"group {group} was not added to the transaction of {name}")
            places = {GroupPlace(group, place): offset for place, offset in offsets.items()}
            await self._change(held, transaction.decide_offsets(places, self._now_ms()))
            if transaction.offsets:
                self._with_offsets.add(name)

    async def end(
        self,
        name: str,
        identity: Identity,
        *,
        commit: bool,
        raises_epoch: bool,
        beside: Commit | None = None,
        commit_by: CommitBy | None = None,
    ) -> Identity:
        """Commit or abort; answers who writes next. The same again, when the answer was lost, changes nothing.

        State and changes of `beside` become durable with it; `commit_by` may add more, and makes the commit then.
        """
        async with self._turn(name) as held:
            transaction = held.transaction
            if transaction.is_repeated(identity, commit=commit, raises_epoch=raises_epoch):
                assert transaction.entry is not None
                return transaction.entry.identity
            return await self._finish(
                transaction, commit=commit, raises_epoch=raises_epoch, beside=beside, commit_by=commit_by
            )

    async def abort_in(self, log: int, identity: Identity) -> None:
        """An administrator ends what a producer left open in a log: the transaction as a whole, as nothing lies between.

        Where it has nothing open, nothing is done.
        """
        for held in list(self._held.values()):
            transaction, entry = held.transaction, held.transaction.entry
            if entry is None or entry.producer != identity.producer:
                continue
            async with self._turn(transaction.name):
                entry = transaction.entry
                if entry is None or not transaction.is_open or log not in transaction.logs | transaction.tried:
                    continue
                if identity.epoch < entry.epoch:
                    raise StaleProducerEpoch(f"producer {entry.producer} is in epoch {entry.epoch}")
                await self._finish(transaction, commit=False, raises_epoch=True)

    # -----------------------------------------------------------------------------------------------------------------

    def _hold(self, name: str) -> _Held:
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = _Held(name)
        return held

    @contextlib.asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[_Held]:
        """One after the other, in one name. A name of which nothing is known is not remembered."""
        held = self._hold(name)
        held.users += 1
        try:
            async with held.lane:
                yield held
        finally:
            held.users -= 1
            if held.transaction.entry is None and not held.users:
                del self._held[name]

    def _checked(self, name: str, identity: Identity) -> Transaction:
        held = self._held.get(name)
        if held is None:
            raise UnknownProducer(f"transactional id {name}")
        held.transaction.check(identity)
        return held.transaction

    async def _change(self, held: _Held, mutations: Sequence[Mutation]) -> None:
        if mutations:
            await self._engine.alter((), mutations)
            for mutation in mutations:
                held.transaction.replay(mutation)
            self._arm(held)

    async def _finish(
        self,
        transaction: Transaction,
        *,
        commit: bool,
        raises_epoch: bool,
        beside: Commit | None = None,
        commit_by: CommitBy | None = None,
    ) -> Identity:
        new = await self._producers.new_id() if raises_epoch and transaction.needs_producer() else NO_PRODUCER

        def decide(gone: Collection[int]) -> Transition:
            return transaction.decide_end(
                commit=commit, raises_epoch=raises_epoch, new_producer=new, now_ms=self._now_ms(), gone=gone
            )

        return await self._end(transaction, decide, _by_group(transaction) if commit else None, beside, commit_by)

    async def _end(
        self,
        transaction: Transaction,
        decide: Decide,
        offsets: Mapping[str, Offsets] | None = None,
        beside: Commit | None = None,
        commit_by: CommitBy | None = None,
    ) -> Identity:
        """One commit: markers, offsets of groups, state, and what is to happen beside it."""
        committed = {group: GroupRecord(group).decide_commit(of_group) for group, of_group in (offsets or {}).items()}
        transaction.is_ending = True
        try:
            beside = beside or Commit()
            offsets_state = [m for mutations in committed.values() for m in mutations]
            whole = Commit(state=[*offsets_state, *beside.state], changes=beside.changes)
            ending = await self._commit(decide, whole, commit_by or self._commit_alone)
            for mutation in ending.state:
                transaction.replay(mutation)
            self._with_offsets.discard(transaction.name)
        finally:
            transaction.is_ending = False
        for group, mutations in committed.items():
            self._groups.confirm(group, mutations)
        return ending.entry.identity

    async def _commit_alone(self, commit: Commit) -> CommitResult:
        (result,) = await self._engine.commit([commit])
        return result

    async def _commit(self, decide: Decide, beside: Commit, commit_by: CommitBy) -> Transition:
        gone: set[int] = set()
        attempt = 0
        while True:
            ending = decide(gone)
            whole = Commit(ending.appends, state=[*ending.state, *beside.state], changes=beside.changes)
            result = await commit_by(whole)
            if not isinstance(result, MainstemError):
                return ending
            attempt += 1
            if not isinstance(result, UnknownLog) or attempt == DELETED_LOG_ATTEMPTS:
                raise result
            # A topic was deleted meanwhile, and with it whatever its readers were to be told.
            alive = {log for topic in self._topics.values() for log in topic.logs}
            gone.update(append.log for append in ending.appends if append.log not in alive)

    # Time

    def _arm(self, held: _Held) -> None:
        """See to it that the transaction is looked at when it is due. One that has ended by then is looked at in vain."""
        due_ms = held.transaction.due_ms
        if due_ms is not None and held.timer is None:
            self._look_in(held, (due_ms - self._now_ms()) / 1000)

    def _look_in(self, held: _Held, seconds: float) -> None:
        def look() -> None:
            held.timer = None
            if held.transaction.is_due(self._now_ms()):
                self._spawn(self._time_out(held.transaction.name))
            else:
                self._arm(held)

        # One millisecond more: timers may come early by the rounding of clocks.
        held.timer = self._call_later(max(seconds, 0) + 0.001, look)

    async def _time_out(self, name: str) -> None:
        async with self._turn(name) as held:
            transaction = held.transaction
            if not transaction.is_due(self._now_ms()):
                self._arm(held)
                return
            try:
                # Its producer may still be writing: another epoch keeps that out.
                await self._finish(transaction, commit=False, raises_epoch=True)
                log.info("the transaction of %s has lasted too long and was aborted", name)
            except MainstemError as error:
                log.warning("the transaction of %s is not aborted yet, it is tried again: %s", name, error)
                self._look_in(held, RETRY_S)

    def _expiry_due(self) -> None:
        self._call_later(EXPIRY_CHECK_S, self._expiry_due)
        self._spawn(self.expire())

    async def expire(self) -> None:
        """Forget transactional ids that nobody has used for long."""
        for name in list(self._held):
            async with self._turn(name) as held:
                if held.transaction.is_silent(self._now_ms() - self._rules.name_expiry_ms):
                    try:
                        await self._change(held, held.transaction.decide_forget())
                    except MainstemError as error:
                        log.warning("%s could not be forgotten, it is due again later: %s", name, error)
                        return

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        # The loop itself holds tasks only weakly.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _by_group(transaction: Transaction) -> dict[str, dict[TopicPlace, CommittedOffset]]:
    groups: dict[str, dict[TopicPlace, CommittedOffset]] = {}
    for (group, place), offset in transaction.offsets.items():
        groups.setdefault(group, {})[place] = offset
    return groups
