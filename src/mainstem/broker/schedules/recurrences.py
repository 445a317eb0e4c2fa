"""Records that are published again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from mainstem.broker.clock import Clock, Timer
from mainstem.broker.schedules.delivery import Delivery
from mainstem.coordination.commit_addition import SealedAddition
from mainstem.coordination.schedules.cron import Cron
from mainstem.coordination.schedules.errors import InvalidRecurrence, NotScheduled
from mainstem.coordination.schedules.recurrence import (
    NAME_CHARACTERS_MAX,
    SCOPE,
    Recurrence,
    RecurrenceEntry,
    put_recurrence,
    replay_recurrences,
)
from mainstem.coordination.schedules.scheduled_record import Letter
from mainstem.model.errors import EngineClosed, MainstemError, PeerError
from mainstem.storage.contract import Commit, Engine, Mutation

log = logging.getLogger(__name__)

RECURRENCES_MAX = 10_000
RETRY_PAUSE_S = 1.0
LOOK_AGAIN_S = 60.0
"""The clock on the wall may be set; no timer waits longer."""


class _Firing:
    """An Extra: what is stored when something has happened."""

    def __init__(self, state: Sequence[Mutation]) -> None:
        self._state = state

    def seal(self) -> SealedAddition:
        """No records of its own."""
        return SealedAddition((), self._state)

    def resolved(self, outcome: Sequence[int] | MainstemError) -> None:
        """Told by the delivery as well."""


class Recurrences:
    """By name."""

    def __init__(self, engine: Engine, clock: Clock, delivery: Delivery) -> None:
        self._engine = engine
        self._clock = clock
        self._delivery = delivery
        self._by_name: dict[str, Recurrence] = {}
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._changes_lock = asyncio.Lock()

    async def load(self) -> None:
        """Take in what is stored."""
        self._by_name = replay_recurrences((await self._engine.load(SCOPE)).entries.values())
        self.look()

    def stop(self) -> None:
        """Nothing happens any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    @property
    def by_name(self) -> Mapping[str, Recurrence]:
        """All there are; stays current."""
        return self._by_name

    def get(self, name: str) -> Recurrence:
        """One of them. Raises NotScheduled."""
        found = self._by_name.get(name)
        if found is None:
            raise NotScheduled(f"nothing recurs by the name {name!r}")
        return found

    async def put(self, name: str, cron: str, zone: str, letter: Letter, *, is_paused: bool = False) -> Recurrence:
        """Make it, or make it another one; durable when answered. Raises InvalidRecurrence."""
        if not 1 <= len(name) <= NAME_CHARACTERS_MAX:
            raise InvalidRecurrence(f"a name has 1 to {NAME_CHARACTERS_MAX} characters")
        rule = Cron(cron, zone)
        async with self._changes_lock:
            before = self._by_name.get(name)
            if before is None and len(self._by_name) >= RECURRENCES_MAX:
                raise InvalidRecurrence(f"there are {RECURRENCES_MAX} already")
            next_ms = rule.next_ms(self._clock.now_ms())
            if next_ms is None:
                raise InvalidRecurrence(f"{cron!r} does not happen again")
            entry = RecurrenceEntry(name, cron, zone, letter, next_ms, is_paused)
            if before is not None:
                entry = msgspec.structs.replace(entry, last_ms=before.entry.last_ms, count=before.entry.count)
            recurrence = Recurrence(entry, rule)
            await self._store([put_recurrence(name, recurrence)])
            self._by_name[name] = recurrence
        self.look()
        return recurrence

    async def remove(self, name: str) -> None:
        """It does not happen again; durable when answered. Raises NotScheduled."""
        async with self._changes_lock:
            self.get(name)
            await self._store([put_recurrence(name, None)])
            del self._by_name[name]

    async def _store(self, state: list[Mutation]) -> None:
        (outcome,) = await self._engine.commit([Commit(state=state)])
        if isinstance(outcome, MainstemError):
            raise outcome

    # Time

    def look(self) -> None:
        """Do what is due, or wait for it."""
        if self._task is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [found.entry.next_ms for found in self._by_name.values() if not found.entry.is_paused]
        if not times:
            return
        wait_s = (min(times) - self._clock.now_ms()) / 1000
        if wait_s <= 0:
            self._task = asyncio.get_running_loop().create_task(self._work())
        else:
            self._timer = self._clock.call_later(min(wait_s, LOOK_AGAIN_S), self._timer_called)

    def _timer_called(self) -> None:
        self._timer = None
        self.look()

    async def _work(self) -> None:
        pause = False
        try:
            async with self._changes_lock:
                await self._happen(self._clock.now_ms())
        except EngineClosed:
            return
        except MainstemError as error:
            log.warning("what recurs waits: %s", error)
            pause = True
        finally:
            self._task = None
        if pause:
            self._timer = self._clock.call_later(RETRY_PAUSE_S, self._timer_called)
        else:
            self.look()

    async def _happen(self, now_ms: int) -> None:
        due = [found for found in self._by_name.values() if not found.entry.is_paused and found.entry.next_ms <= now_ms]
        due.sort(key=lambda found: found.entry.next_ms)
        for recurrence in due:
            entry = recurrence.entry
            after = recurrence.happened(now_ms)
            letter = msgspec.structs.replace(entry.letter, created_ms=entry.next_ms)
            firing = _Firing([put_recurrence(entry.name, after)])
            try:
                await self._delivery.deliver([letter], firing, _not_again)
            except PeerError as error:
                # Its target will not have it, now or in a second: the others do not wait for that.
                log.warning("%s did not happen at its time: %s: %s", entry.name, letter.target.describe(), error)
                await self._delivery.deliver([], firing, _not_again)
            if after is None:
                del self._by_name[entry.name]
            else:
                self._by_name[entry.name] = after


def _not_again(letter: Letter, due_ms: int) -> None:
    """What recurs through a delayed exchange is delayed by its rule, not by its header."""
