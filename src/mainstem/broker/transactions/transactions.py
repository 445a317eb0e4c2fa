"""Transactions: batches in many logs, and offsets of groups, that count together or not at all.

The end of a transaction is one commit: its markers, its offsets and its state. What is asked in one name is dealt with one
after the other, each on what the one before has made durable; only writes do not wait (see `coordination.transactions`), and
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

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.clock import Clock, Timer
from mainstem.broker.groups.groups import CommittedOffset, Groups, TopicPlace
from mainstem.broker.transactions.producers import Producers
from mainstem.coordination.catalog.name_pattern import NamePattern
from mainstem.coordination.errors import (
    InvalidTransactionState,
    InvalidTransactionTimeout,
    StaleProducerEpoch,
    UnknownProducer,
    UnknownTransaction,
)
from mainstem.coordination.groups.group_offsets import GroupRecord
from mainstem.coordination.transactions.entries import (
    NO_PRODUCER,
    SCOPE,
    GroupPlace,
    Identity,
    TransactionState,
    decode_key,
)
from mainstem.coordination.transactions.transaction import Transaction, Transition
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


class _Slot:
    """A transaction with its lock and its timer."""

    __slots__ = ("lock", "timer", "transaction", "users")

    def __init__(self, name: str) -> None:
        self.transaction = Transaction(name)
        self.lock = asyncio.Lock()
        self.users = 0
        """Tasks that hold the lock or wait for it."""
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
        self._slots: dict[str, _Slot] = {}
        self._with_offsets: set[str] = set()
        """Names of open transactions that hold offsets: few among many."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Take back what is stored; a transaction that was open goes on, until its time has passed."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self._slot(decode_key(key).name).transaction.replay(Mutation(SCOPE, key, value))
        for name, slot in self._slots.items():
            self._arm(slot)
            if slot.transaction.offsets:
                self._with_offsets.add(name)
        self._call_later(EXPIRY_CHECK_S, self._expiry_due)

    # Questions: all that is shown is durable

    def known(self) -> list[Transaction]:
        """Of every transactional id."""
        return [slot.transaction for slot in self._slots.values() if slot.transaction.entry is not None]

    def get(self, name: str) -> Transaction:
        """One of them. Raises UnknownTransaction."""
        slot = self._slots.get(name)
        if slot is None or slot.transaction.entry is None:
            raise UnknownTransaction(f"transactional id {name}")
        return slot.transaction

    def pending(self, group: str) -> set[TopicPlace]:
        """Places of which an open transaction holds an offset that may still become the committed one."""
        return {
            place
            for name in self._with_offsets
            for of_group, place in self._slots[name].transaction.offsets
            if of_group == group
        }

    def is_added(self, name: str, identity: Identity, log: int) -> bool:
        """Whether a log takes part. Raises UnknownProducer, FencedProducer."""
        return log in self._checked(name, identity).logs

    # Writing

    def commit_for(self, name: str, identity: Identity, append: Append, *, implicitly: bool) -> Commit:
        """The commit that writes a batch within the transaction. A Commit with state is given to `confirm` once it is durable.

        Without `implicitly`, the log was to be added before. Raises kinds of TransactionError.
        """
        slot = self._slots.get(name)
        if slot is None:
            raise UnknownProducer(f"transactional id {name}")
        mutations = slot.transaction.decide_write(identity, append.log, self._now_ms(), implicitly=implicitly)
        if mutations:
            self._arm(slot)
        return Commit((append,), state=mutations)

    def confirm(self, name: str, commit: Commit) -> None:
        """What `commit_for` answered is durable."""
        transaction = self._slots[name].transaction
        for mutation in commit.state:
            transaction.replay(mutation)

    # Changes. All of them raise kinds of TransactionError, and what the log refuses.

    async def begin(self, name: str, timeout_ms: int, expected: Identity | None) -> Identity:
        """Another incarnation of the producer of this name; the ones before are fenced, and what they left is aborted."""
        if not 0 < timeout_ms <= self._rules.timeout_ms_max:
            raise InvalidTransactionTimeout(f"{timeout_ms} ms is not within 1 and {self._rules.timeout_ms_max}")
        async with self._turn(name) as slot:
            transaction = slot.transaction
            new = await self._producers.new_id() if transaction.needs_producer(expected) else NO_PRODUCER

            def decide(gone: Collection[int]) -> Transition:
                return transaction.decide_begin(timeout_ms, expected, new, self._now_ms(), gone)

            return await self._end(transaction, decide)

    async def add(self, name: str, identity: Identity, logs: Sequence[int]) -> None:
        """Logs take part."""
        async with self._turn(name) as slot:
            transaction = self._checked(name, identity)
            await self._change(slot, transaction.decide_add(logs, self._now_ms()))

    async def add_group(self, name: str, identity: Identity, group: str) -> None:
        """Offsets of the group may take part."""
        async with self._turn(name) as slot:
            transaction = self._checked(name, identity)
            await self._change(slot, transaction.decide_add_group(group, self._now_ms()))

    async def add_offsets(
        self, name: str, identity: Identity, group: str, offsets: Offsets, *, implicitly: bool
    ) -> None:
        """Offsets that count once the transaction commits. Without `implicitly`, the group was to be added before."""
        async with self._turn(name) as slot:
            transaction = self._checked(name, identity)
            if not implicitly and group not in transaction.groups:
                raise InvalidTransactionState(f"group {group} was not added to the transaction of {name}")
            places = {GroupPlace(group, place): offset for place, offset in offsets.items()}
            await self._change(slot, transaction.decide_offsets(places, self._now_ms()))
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
        async with self._turn(name) as slot:
            transaction = slot.transaction
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
        for slot in list(self._slots.values()):
            transaction, entry = slot.transaction, slot.transaction.entry
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

    def _slot(self, name: str) -> _Slot:
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = _Slot(name)
        return slot

    @contextlib.asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[_Slot]:
        """One after the other, in one name. A name of which nothing is known is not remembered."""
        slot = self._slot(name)
        slot.users += 1
        try:
            async with slot.lock:
                yield slot
        finally:
            slot.users -= 1
            if slot.transaction.entry is None and not slot.users:
                del self._slots[name]

    def _checked(self, name: str, identity: Identity) -> Transaction:
        slot = self._slots.get(name)
        if slot is None:
            raise UnknownProducer(f"transactional id {name}")
        slot.transaction.check(identity)
        return slot.transaction

    async def _change(self, slot: _Slot, mutations: Sequence[Mutation]) -> None:
        if mutations:
            await self._engine.alter((), mutations)
            for mutation in mutations:
                slot.transaction.replay(mutation)
            self._arm(slot)

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

    def _arm(self, slot: _Slot) -> None:
        """See to it that the transaction is looked at when it is due. The timer of one that has ended by then has no effect."""
        due_ms = slot.transaction.due_ms
        if due_ms is not None and slot.timer is None:
            self._call_in(slot, (due_ms - self._now_ms()) / 1000)

    def _call_in(self, slot: _Slot, seconds: float) -> None:
        def on_timer() -> None:
            slot.timer = None
            if slot.transaction.is_due(self._now_ms()):
                self._spawn(self._time_out(slot.transaction.name))
            else:
                self._arm(slot)

        # One millisecond more: timers may come early by the rounding of clocks.
        slot.timer = self._call_later(max(seconds, 0) + 0.001, on_timer)

    async def _time_out(self, name: str) -> None:
        async with self._turn(name) as slot:
            transaction = slot.transaction
            if not transaction.is_due(self._now_ms()):
                self._arm(slot)
                return
            try:
                # Its producer may still be writing: another epoch keeps that out.
                await self._finish(transaction, commit=False, raises_epoch=True)
                log.info("the transaction of %s has lasted too long and was aborted", name)
            except MainstemError as error:
                log.warning("the transaction of %s is not aborted yet, it is tried again: %s", name, error)
                self._call_in(slot, RETRY_S)

    def _expiry_due(self) -> None:
        self._call_later(EXPIRY_CHECK_S, self._expiry_due)
        self._spawn(self.expire())

    async def expire(self) -> None:
        """Forget transactional ids that nobody has used for long."""
        for name in list(self._slots):
            async with self._turn(name) as slot:
                if slot.transaction.is_silent(self._now_ms() - self._rules.name_expiry_ms):
                    try:
                        await self._change(slot, slot.transaction.decide_forget())
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
