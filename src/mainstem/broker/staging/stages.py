"""Stages: where the tasks of a query write what must not be seen before all of them have ended.

A task's batches go to the hidden log of its stage (`add_batch`); one call publishes the stages of a batch together with
its number (`publish`), or drops them (`abort`). Stages are nobody's topics: they are not listed, have no lag, do not age.
What nobody publishes or drops expires.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from mainstem.broker.acquisitions import Acquisitions, Reading, Ruled
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.clock import Clock, Timer
from mainstem.broker.schedules import Schedules
from mainstem.broker.staging.limits import StageLimits
from mainstem.broker.staging.publication import (
    TRANSACTION_PREFIX,
    Publication,
    StageRemoval,
    encode_label,
)
from mainstem.broker.staging.schedule import check_later
from mainstem.broker.transactions.transactions import CommitBy, Transactions
from mainstem.coordination.catalog.topic_config import log_config
from mainstem.coordination.decision import Decision
from mainstem.coordination.errors import (
    IncompleteStage,
    InvalidStagedBatch,
    StageError,
    StagePositionMissed,
    UnknownStage,
    UnknownTopic,
)
from mainstem.coordination.staging.stages import (
    SCOPE,
    Fate,
    SinkEntry,
    Stage,
    StageTable,
    check_listed,
)
from mainstem.model.bounds import Positive
from mainstem.model.errors import BatchTooLarge, KeyRequired, MainstemError
from mainstem.model.staging import (
    LABEL_POSITIONS,
    PREFIX,
    InvalidStageName,
    SinkKey,
    StageKey,
    check_stage_key,
    decode_stage_name,
)
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Append, Commit, CommitResult, Edge, Engine, Mutation
from mainstem.wire.record_batch import CONTROL, TRANSACTIONAL, decode_keys, read_header

__all__ = ["PREFIX", "Destination", "Published", "SinkKey", "StageAppend", "StageKey", "StageRules", "Stages"]

log = logging.getLogger(__name__)

DROPS_PER_COMMIT = 500
GIVEN_UP_MAX = 10_000
"""Queries that nothing more is taken from; the oldest are forgotten, and what they still stage expires."""
EXPIRY_CHECKS = 10
"""How often, within the time after which a stage expires, it is looked at."""

Verdicts: TypeAlias = Mapping[str, Sequence[Ruled]]
"""What is to become of single records that the batch has read, by acquisition."""


class StageRules(msgspec.Struct, frozen=True, kw_only=True):
    """What stages may cost; the server offers each as `stages.<name>`."""

    expiry_ms: Positive = 3_600_000
    """After so long without a batch, a stage that nobody has published is dropped."""


class Destination(NamedTuple):
    """Where a batch is to go: first into a stage, then to a topic."""

    stage: StageKey
    topic: Topic
    is_later: bool
    """Its records each have their time, and come to the topic then."""


class StageAppend(NamedTuple):
    """A batch on its way into a stage. `settle` is told what the log said to its commit."""

    stage: Stage
    commit: Commit
    opens: bool
    size: int
    """Positions that it takes; none if the stage holds it already."""


class Published(NamedTuple):
    """What became of a batch."""

    is_repeated: bool
    """It had been published before; what was staged this time is dropped."""
    records: int
    bytes: int


class Stages:
    """All stages of a broker."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        transactions: Transactions,
        topics: Mapping[str, Topic],
        by_id: Mapping[UUID, Topic],
        acquisitions: Acquisitions,
        schedules: Schedules,
        limits: StageLimits = StageLimits(),  # noqa: B008
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._now_ms = clock.now_ms
        self._call_later = clock.call_later
        self._transactions = transactions
        self._topics = topics
        self._publication = Publication(engine, transactions, by_id, schedules, limits)
        self._acquisitions = acquisitions
        self._table = StageTable()
        self._rules = StageRules()
        self._leaving: set[Stage] = set()
        """Stages on which a commit or drop is at work: nobody else takes them."""
        self._given_up: dict[SinkKey, None] = {}
        self._sink_locks: dict[SinkKey, tuple[asyncio.Lock, list[None]]] = {}
        self._timer: Timer | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def govern(self, rules: StageRules) -> None:
        """Take other rules on."""
        self._rules = rules
        if self._timer is not None:
            self._timer.cancel()
        self._look_later()

    async def load(self) -> None:
        """Take back what is stored. What a publication had begun when the broker ended is undone: it is asked for again."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self._table.replay(key, value)
        now_ms = self._now_ms()
        for stage in self._table.stages.values():
            stage.next = (await self._engine.offset_at(stage.log, Edge.END)).offset
            stage.touched_ms = now_ms
        for transaction in self._transactions.known():
            if transaction.name.startswith(TRANSACTION_PREFIX) and transaction.is_open:
                assert transaction.entry is not None
                identity = transaction.entry.identity
                await self._transactions.end(transaction.name, identity, commit=False, raises_epoch=False)
        self._look_later()

    # Questions

    def open(self) -> list[Stage]:
        """Every stage."""
        return list(self._table.stages.values())

    def sinks(self) -> Mapping[SinkKey, SinkEntry]:
        """The last batch of each sink."""
        return self._table.sinks

    # Writing

    def destination(self, name: str) -> Destination:
        """What is meant by a name. Raises StageError, UnknownTopic."""
        try:
            key, topic_name, is_later = decode_stage_name(name)
        except InvalidStageName as error:
            raise StageError(str(error)) from None
        topic = self._topics.get(topic_name)
        if topic is None:
            raise UnknownTopic(f"topic {topic_name}")
        return Destination(key, topic, is_later)

    def add_batch(
        self, destination: Destination, partition: int, batch: memoryview, *, is_keyed: bool = False
    ) -> StageAppend:
        """Let a batch into a stage, which opens with its first one. Raises kinds of StageError and InvalidBatch.

        `is_keyed` says that every record was seen to have a key.
        A batch that the stage holds already comes to an empty commit: it is durable when that is.
        """
        header = read_header(batch)
        if header.producer_id >= 0 or header.attributes & (TRANSACTIONAL | CONTROL):
            raise InvalidStagedBatch("a stage takes plain batches, without producer or transaction")
        key, topic, is_later = destination
        _check_for(topic, batch, is_keyed=is_keyed)
        if is_later:
            check_later(batch, self._limits.scheduled_bytes_max)
        now_ms = self._now_ms()
        position, size = header.base_offset, LABEL_POSITIONS + header.record_count
        stage = self._table.stages.get(key)
        opening: Decision | None = None
        if stage is None:
            if position != 0:
                self._table.get(key)  # raises
            if key.sink_key in self._given_up:
                raise UnknownStage(f"the write of task {key.task} was given up")
            stage, opening = self._table.decide_open(key, now_ms)
        elif stage in self._leaving:
            raise IncompleteStage(f"the stage of task {key.task} is being published")
        if stage.is_damaged:
            raise IncompleteStage(f"a batch of task {key.task} was refused before this one")
        if position < stage.next and position + size <= stage.next:
            return StageAppend(stage, Commit(), opens=False, size=0)
        if position != stage.next:
            raise StagePositionMissed(f"the stage ends at {stage.next}, and the batch begins at {position}")
        stage.next += size
        stage.touched_ms = now_ms
        label = encode_label(topic, partition, now_ms, is_later=is_later, is_keyed=is_keyed)
        appends = (Append(stage.log, label), Append(stage.log, batch))
        if opening is None:
            return StageAppend(stage, Commit(appends), opens=False, size=size)
        self._table.note(stage)
        return StageAppend(stage, Commit(appends, state=opening.state, changes=opening.logs), opens=True, size=size)

    def note_results(self, batches: Sequence[tuple[int, StageAppend]], answer: Answer[list[CommitResult]]) -> None:
        """Learn what became of batches, each by its place in the answer."""
        if answer.error is not None:
            # Refused as a whole, and at once: nothing has come behind it, and the same may come again.
            for _, staged in reversed(batches):
                staged.stage.next -= staged.size
                if staged.opens:
                    self._table.retract(staged.stage)
            return
        results = answer.result()
        for at, staged in batches:
            if isinstance(results[at], MainstemError):
                if staged.opens:
                    self._table.retract(staged.stage)
                staged.stage.is_damaged = True

    # Ends

    async def publish(
        self,
        sink: SinkKey,
        batch: int,
        ends: Mapping[StageKey, int],
        *,
        lasting: bool,
        verdicts: Verdicts | None = None,
    ) -> Published:
        """Publish the stages of a batch, each up to its end, unless that has happened; see `coordination.staging.stages`.

        With verdicts, what the batch has acquired is settled by the same commit: accepted, but for what they say otherwise.
        Raises kinds of StageError and AcquisitionError, UnknownTopic, and what the log refuses.
        """
        self._check(sink, batch, ends)
        async with self._turn(sink):
            fate = self._table.decide_fate(sink, batch)
            now_ms = self._now_ms()
            if fate is Fate.REPEATED:
                await self._drop(self._table.of_batches(sink, batch))
                return Published(True, 0, 0)
            with self._claim(self._table.of_batches(sink, batch)) as leaving:
                stages = {self._table.get(key): end for key, end in ends.items()}
                if not stages.keys() <= set(leaving):
                    raise UnknownStage("a stage of the batch is being dropped; run the batch again")
                stored_bytes = await self._measure(stages)
                gone = self._table.decide_drop(leaving)
                published = self._table.decide_published(sink, batch, now_ms, lasting=lasting)
                ending = StageRemoval(gone.logs, [*gone.state, *published])
                async with self._settling(sink, batch, verdicts) as commit_by:
                    copied = await self._publication.publish(sink, stages, ending, stored_bytes, now_ms, commit_by)
                self._replay(ending.state)
            return Published(False, *copied)

    @contextlib.asynccontextmanager
    async def _settling(self, sink: SinkKey, batch: int, verdicts: Verdicts | None) -> AsyncIterator[CommitBy | None]:
        if verdicts is None:
            yield None
            return
        async with self._acquisitions.settling(Reading(sink.query, batch), verdicts) as settlement:
            yield None if settlement is None else settlement.commit

    async def abort(self, keys: Iterable[StageKey]) -> int:
        """Drop stages; those that are gone already are not missed. Answers how many there were."""
        stages = [self._table.stages[key] for key in keys if key in self._table.stages]
        return await self._drop(stages)

    async def abort_batch(self, sink: SinkKey, batch: int, *, is_final: bool = False) -> int:
        """Drop whatever is open of a batch. Answers how many stages there were.

        Tasks may run on for a while after their job was given up. Where a query has a single batch, `is_final` keeps what they
        send from opening stages again.
        """
        if is_final:
            self._given_up[sink] = None
            if len(self._given_up) > GIVEN_UP_MAX:
                del self._given_up[next(iter(self._given_up))]
        return await self._drop([stage for stage in self._table.of_batches(sink, batch) if stage.key.batch == batch])

    def _check(self, sink: SinkKey, batch: int, ends: Mapping[StageKey, int]) -> None:
        try:
            check_stage_key(StageKey(*sink, batch, 0, "-"))
        except InvalidStageName as error:
            raise StageError(str(error)) from None
        check_listed(ends.keys())

    async def _measure(self, stages: Mapping[Stage, int]) -> int:
        """The bytes of stages, which must end where their writers say."""
        size = 0
        for stage, end in stages.items():
            facts = await self._engine.read(stage.log, 0, 0)
            if facts.end != end or stage.next != end or stage.is_damaged:
                raise IncompleteStage(f"the stage of task {stage.key.task} ends at {facts.end}, not at {end}")
            size += facts.stored_bytes
        return size

    async def _drop(self, stages: Sequence[Stage]) -> int:
        dropped = 0
        with self._claim(stages) as leaving:
            for first in range(0, len(leaving), DROPS_PER_COMMIT):
                part = leaving[first : first + DROPS_PER_COMMIT]
                change = self._table.decide_drop(part)
                await self._engine.alter(change.logs, change.state)
                self._replay(change.state)
                dropped += len(part)
        return dropped

    @contextlib.contextmanager
    def _claim(self, stages: Iterable[Stage]) -> Iterator[list[Stage]]:
        """Those of the stages that nobody else is dealing with."""
        claimed = [stage for stage in stages if stage not in self._leaving]
        self._leaving.update(claimed)
        try:
            yield claimed
        finally:
            self._leaving.difference_update(claimed)

    @contextlib.asynccontextmanager
    async def _turn(self, sink: SinkKey) -> AsyncIterator[None]:
        """One commit of a sink after the other."""
        lock, users = self._sink_locks.setdefault(sink, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                self._sink_locks.pop(sink, None)

    def _replay(self, state: Iterable[Mutation]) -> None:
        for mutation in state:
            self._table.replay(mutation.key, mutation.value)

    # Time

    def _look_later(self) -> None:
        self._timer = self._call_later(self._rules.expiry_ms / EXPIRY_CHECKS / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._look_later()
        task = asyncio.get_running_loop().create_task(self.expire())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def expire(self) -> None:
        """Drop what nobody has published."""
        since_ms = self._now_ms() - self._rules.expiry_ms
        try:
            orphans = self._table.silent_since(since_ms)
            if dropped := await self._drop(orphans):
                log.info("%d stages were dropped that nobody has published", dropped)
            if forgotten := self._table.decide_forget(since_ms):
                await self._engine.alter((), forgotten)
                self._replay(forgotten)
        except MainstemError as error:
            log.warning("stages that are due could not be dropped, they are due again later: %s", error)


def _check_for(topic: Topic, batch: memoryview, *, is_keyed: bool) -> None:
    """Refuse at once what the topic would refuse later."""
    size_max = log_config(topic.configs).batch_bytes_max
    if len(batch) > size_max:
        raise BatchTooLarge(f"{len(batch)} bytes; topic {topic.name} takes {size_max}")
    if topic.is_compacted and not is_keyed:
        keyless = [place for place, (_, _, key, _) in enumerate(decode_keys(batch)) if key is None]
        if keyless:
            raise KeyRequired(f"topic {topic.name} is compacted by key and takes no record without one", keyless)
