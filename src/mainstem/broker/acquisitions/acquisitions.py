"""Acquisitions of records by queries of Spark; see `coordination.acquisitions.acquisitions` for their life.

What an acquisition holds is in the log before anybody is told of it, and held again after a restart. How it ends is one commit
with what becomes of each of its records, and with the output of the query where that is published here (`settling`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple

from mainstem.broker.acquisitions.holds import AcquisitionRequest, Holds
from mainstem.broker.acquisitions.queue_holds import QueueHolds
from mainstem.broker.acquisitions.settlement import EndedAcquisition, Settlement
from mainstem.broker.acquisitions.topic_holds import TopicHolds
from mainstem.broker.catalog.topics import Topics
from mainstem.broker.clock import Clock, Timer
from mainstem.broker.dead_letters.record_letters import RecordLetters
from mainstem.broker.groups.share_groups import ShareGroups
from mainstem.broker.queues import Queues
from mainstem.coordination.acquisitions.acquisition import (
    ACCEPT,
    EXPIRE,
    RELEASE,
    Acquisition,
    Condition,
    Reading,
    RecordVerdict,
    Ruled,
    Source,
    Stretches,
    judge,
)
from mainstem.coordination.acquisitions.acquisitions import RECORDS_MAX, SCOPE, AcquisitionTable
from mainstem.coordination.errors import InvalidVerdict, UnknownAcquisition
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Commit, Engine, Mutation

log = logging.getLogger(__name__)

LOOK_MS_MIN = 10
LOOK_MS_MAX = 60_000
"""How long to wait, at most, before what is due is looked for again."""


class Acquire(NamedTuple):
    """What a query wants."""

    source: Source
    records_max: int
    lease_ms: int
    topics: Sequence[str] = ()
    after: str = ""
    """The acquisition that the query is done with."""
    until: Mapping[int, int] | None = None
    starting: str | None = None


class Acquisitions:
    """All of a broker."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        topics: Topics,
        groups: ShareGroups,
        letters: RecordLetters,
        queues: Queues,
    ) -> None:
        self._engine = engine
        self._now_ms = clock.now_ms
        self._call_later = clock.call_later
        self._outbox = queues.outbox
        self._topic_holds = TopicHolds(engine, topics, groups, letters)
        self._queue_holds = QueueHolds(engine, queues)
        self._subscriptions = groups.subscriptions
        self._table = AcquisitionTable()
        self._opening: dict[str, tuple[Source, Stretches]] = {}
        """Taken, and not stored yet."""
        self._turns: dict[str, tuple[asyncio.Lock, list[None]]] = {}
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        groups.is_held = lambda name: bool(self._table.of_source(Source(name)))
        groups.subscriptions.on_reload = self._hold_again

    async def load(self) -> None:
        """Take back what is stored, and hold again what is held."""
        self._table.load((await self._engine.load(SCOPE)).entries)
        for one in self._table.all.values():
            if one.is_holding:
                self._holds(one.source).hold_again(one)
        self._arm()

    # Questions

    def all(self) -> list[Acquisition]:
        """Those that queries have, or had a while ago."""
        return [one for one in self._table.all.values() if one.condition is not Condition.RESTING]

    def get(self, name: str) -> Acquisition:
        """One of them. Raises UnknownAcquisition."""
        return self._table.get(name)

    async def ends(self, source: Source, topics: Sequence[str]) -> Mapping[int, int]:
        """Where each log ends that would be acquired from. Raises kinds of MainstemError."""
        return await self._holds(source).ends(source, topics)

    # Life

    async def acquire(self, wish: Acquire) -> Acquisition | None:
        """Take what is free under a lease; None when nothing is. Raises kinds of MainstemError."""
        if wish.after:
            await self._finish(wish.after)
        self._table.check_room()
        holds = self._holds(wish.source)
        records_max = min(wish.records_max, RECORDS_MAX)
        stretches = await holds.take(
            wish.source, AcquisitionRequest(records_max, wish.until, wish.topics, wish.starting)
        )
        if not stretches:
            return None
        name = uuid.uuid4().hex
        self._opening[name] = wish.source, stretches
        now_ms = self._now_ms()
        try:
            opening = self._table.decide_open(name, wish.source, stretches, now_ms, now_ms + wish.lease_ms)
            await self._change(opening)
        except BaseException:
            holds.free(wish.source, stretches)
            raise
        finally:
            del self._opening[name]
        self._arm()
        return self._table.all[name]

    async def pin(self, name: str) -> Acquisition:
        """Spark has logged it. Raises UnknownAcquisition, AcquisitionReleased."""
        async with self._turn([name]):
            one = self._table.not_released(name)
            await self._change(self._table.decide_pin(one))
            return one

    async def read(self, name: str, reading: Reading) -> None:
        """It is read in this batch. Raises UnknownAcquisition, AcquisitionReleased."""
        async with self._turn([name]):
            await self._change(self._table.decide_read(self._table.not_released(name), reading))

    async def rule(self, name: str, who: str, verdicts: Sequence[Ruled]) -> None:
        """What is to become of these when it is settled, in place of what the same one said before.

        Raises UnknownAcquisition, AcquisitionReleased, InvalidVerdict.
        """
        async with self._turn([name]):
            one = self._table.not_released(name)
            if one.condition is Condition.PINNED:
                await self._change(self._table.decide_rule(one, who, verdicts))

    async def settle(self, name: str) -> None:
        """Accept it, but for what was ruled on; once. Raises UnknownAcquisition, AcquisitionReleased, InvalidVerdict."""
        async with self._turn([name]):
            one = self._table.not_released(name)
            if one.condition is Condition.LEASED:
                raise InvalidVerdict(f"acquisition {name} was not read")
            if one.condition is Condition.PINNED:
                await self._end([one], Condition.SETTLED, ACCEPT)

    async def release(self, name: str) -> None:
        """Let others have its records. Raises UnknownAcquisition."""
        async with self._turn([name]):
            one = self._table.get(name)
            if one.is_holding:
                await self._end([one], Condition.RELEASED, RELEASE)

    @contextlib.asynccontextmanager
    async def settling(
        self, reading: Reading, verdicts: Mapping[str, Sequence[Ruled]]
    ) -> AsyncIterator[Settlement | None]:
        """To settle what a batch has read with the commit of its output; None when there is nothing.

        Raises UnknownAcquisition, AcquisitionReleased, InvalidVerdict.
        """
        names = [one.id for one in self._table.read_in(reading)]
        for name in verdicts:
            if name not in names:
                raise InvalidVerdict(f"acquisition {name} is not read by batch {reading.batch} of {reading.query}")
        async with self._turn(names):
            held = [self._table.not_released(name) for name in names]
            endings = []
            for one in held:
                if one.condition is Condition.PINNED:
                    said = verdicts.get(one.id)
                    if said is not None:
                        one.check(said)
                    endings.append(await self._ending(one, Condition.SETTLED, ACCEPT, said))
            yield Settlement(self._outbox, self._table, endings, self._now_ms()) if endings else None
        self._arm()

    # -----------------------------------------------------------------------------------------------------------------

    def _holds(self, source: Source) -> Holds:
        return self._topic_holds if source.namespace is None else self._queue_holds

    def _hold_again(self, name: str) -> None:
        """The cursors of a subscription are new."""
        source = Source(name)
        for one in self._table.of_source(source):
            self._topic_holds.hold_again(one)
        for name, (of, stretches) in self._opening.items():
            if of == source:
                self._topic_holds.hold_again(Acquisition(name, source, stretches, 0))

    async def _finish(self, name: str) -> None:
        """The query is done with it, and has gone on."""
        with contextlib.suppress(UnknownAcquisition):
            async with self._turn([name]):
                one = self._table.get(name)
                if one.condition is Condition.PINNED:
                    await self._end([one], None, ACCEPT)
                elif not one.is_holding:
                    await self._change(self._table.decide_forget(one))

    async def _ending(
        self,
        one: Acquisition,
        condition: Condition | None,
        otherwise: RecordVerdict,
        said: Iterable[Ruled] | None = None,
    ) -> EndedAcquisition:
        verdicts = one.verdicts if said is None else said
        judged = judge(one, verdicts if otherwise is ACCEPT else (), otherwise)
        return EndedAcquisition(one, condition, await self._holds(one.source).judge(one, judged, self._now_ms()))

    async def _end(self, some: Iterable[Acquisition], condition: Condition | None, otherwise: RecordVerdict) -> None:
        endings = [await self._ending(one, condition, otherwise) for one in some]
        outcome = await Settlement(self._outbox, self._table, endings, self._now_ms()).commit(Commit())
        if isinstance(outcome, MainstemError):
            raise outcome
        self._arm()

    async def _change(self, state: Sequence[Mutation]) -> None:
        if state:
            await self._engine.alter((), state)
            for mutation in state:
                self._table.replay(mutation.key, mutation.value)

    @contextlib.asynccontextmanager
    async def _turn(self, names: Sequence[str]) -> AsyncIterator[None]:
        """One after the other, with each acquisition."""
        async with contextlib.AsyncExitStack() as stack:
            for name in sorted(names):
                lane, users = self._turns.setdefault(name, (asyncio.Lock(), []))
                users.append(None)
                stack.callback(self._leave, name, users)
                await stack.enter_async_context(lane)
            yield

    def _leave(self, name: str, users: list[None]) -> None:
        users.pop()
        if not users:
            self._turns.pop(name, None)

    # Time

    def _arm(self) -> None:
        due_ms = self._table.next_due_ms()
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        wait_ms = min(max(due_ms - self._now_ms(), LOOK_MS_MIN), LOOK_MS_MAX)
        self._timer = self._call_later(wait_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        task = asyncio.get_running_loop().create_task(self.expire())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def expire(self) -> None:
        """End what is due: leases that were never pinned, rests, and what was remembered for long enough."""
        try:
            for one in self._table.due(self._now_ms()):
                async with self._turn([one.id]):
                    await self._expire(one)
        except MainstemError as error:
            log.warning("acquisitions that are due could not be ended, they are due again later: %s", error)
            self._timer = self._call_later(LOOK_MS_MAX / 1000, self._on_timer)
            return
        self._arm()

    async def _expire(self, one: Acquisition) -> None:
        if self._table.all.get(one.id) is not one or one not in self._table.due(self._now_ms()):
            return  # pinned meanwhile, or gone
        if one.condition is Condition.LEASED:
            await self._end([one], None, EXPIRE)
            log.info("acquisition %s of %s has expired: its records are free", one.id, one.source)
        else:
            await self._change(self._table.decide_forget(one))
            if one.condition is Condition.RESTING:
                self._topic_holds.free(one.source, one.stretches)
