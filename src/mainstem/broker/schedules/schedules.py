"""The schedule as others use it: put records in, look at them, change one's mind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from mainstem.broker.clock import Clock
from mainstem.broker.schedules.additions import Additions
from mainstem.broker.schedules.delivery import Delivery, Outbox
from mainstem.broker.schedules.mover import Mover
from mainstem.broker.schedules.search import Pending, PendingPage, ScheduleSearch, Search, SearchPosition
from mainstem.broker.schedules.window import DueWindow
from mainstem.coordination.schedules.delay_levels import DELAY_LEVELS_MS, level_delay_ms
from mainstem.coordination.schedules.errors import NotScheduled
from mainstem.coordination.schedules.schedule import SCOPE, ScheduleBook
from mainstem.coordination.schedules.scheduled_record import Letter, Target, due_of
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Edge, Engine

__all__ = ["DELAY_LEVELS_MS", "Schedules", "level_delay_ms"]


class Schedules:
    """Records that wait for their time."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        outbox: Outbox,
        delivery: Delivery,
        random: Callable[[int], bytes] = os.urandom,
        window: DueWindow | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._outbox = outbox
        self._delivery = delivery
        self._book = ScheduleBook()
        self._mover = Mover(engine, clock, self._book, delivery, random, window or DueWindow())
        self._search = ScheduleSearch(engine, self._book)
        self._turn: Additions | None = None

    async def load(self) -> None:
        """Take in what is stored, and begin to move."""
        self._book.replay_all((await self._engine.load(SCOPE)).entries.items())
        for bucket in self._book.buckets.values():
            bucket.end = (await self._engine.offset_at(bucket.log, Edge.END)).offset
        self._mover.look()

    def stop(self) -> None:
        """Nothing is moved any more."""
        self._mover.stop()

    @property
    def pending_count(self) -> int:
        """How many records wait."""
        return self._book.pending

    @property
    def mover(self) -> Mover:
        """What it has done so far."""
        return self._mover

    # Putting in

    def schedule(
        self,
        target: Target,
        headers: bytes,
        value: bytes | memoryview | None,
        *,
        due_ms: int,
        key: bytes | None = None,
        ttl_ms: int = -1,
        priority: int = 0,
    ) -> bytes:
        """Publish it then; the wish is durable with the commit of this turn. Answers its id. Raises DueTimeTooFar."""
        body = bytes(value) if isinstance(value, memoryview) else value
        letter = Letter(target, self._clock.now_ms(), headers, body, key, ttl_ms, priority)
        if self._turn is None:
            turn = Additions(self._mover.added, self._end_turn)
            self._outbox.add(turn)
            self._turn = turn
        record_id, size = self._mover.put_in(self._turn, letter, due_ms)
        self._outbox.grow(size)
        return record_id

    async def schedule_now(self, letter: Letter, due_ms: int) -> bytes:
        """The same in a commit of its own, answered when it is durable."""
        additions = Additions(self._mover.added)
        record_id, _ = self._mover.put_in(additions, letter, due_ms)
        await self._delivery.deliver([], additions, _never)
        return record_id

    def additions(self, records: Iterable[tuple[Letter, int]]) -> Additions:
        """Records and when they are due, to be part of a commit that is made at once. Raises DueTimeTooFar."""
        additions = Additions(self._mover.added)
        for letter, due_ms in records:
            self._mover.put_in(additions, letter, due_ms)
        return additions

    def put_in(self, additions: Additions, letter: Letter, due_ms: int) -> bytes:
        """One record more; answers its id. Raises DueTimeTooFar."""
        record_id, _ = self._mover.put_in(additions, letter, due_ms)
        return record_id

    def _end_turn(self) -> None:
        self._turn = None

    # Looking

    async def find(self, record_id: bytes) -> Pending:
        """The record of this id. Raises NotScheduled."""
        found = await self._search.find(record_id, due_of(record_id))
        if found is None:
            raise NotScheduled(f"no scheduled record {record_id.hex()}")
        return found

    async def pending(self, search: Search, after: SearchPosition | None, limit: int) -> PendingPage:
        """Some of those that match; roughly by due time, by arrival within a stretch of it."""
        return await self._search.page(search, after, limit)

    # Changing

    async def cancel(self, record_id: bytes) -> None:
        """It will not happen; durable when answered. Raises NotScheduled."""
        await self._replace(await self.find(record_id), None)

    async def change(self, record_id: bytes, *, due_ms: int | None = None, letter: Letter | None = None) -> bytes:
        """Another time, or another content; answers the new id, for an id says the time. Raises NotScheduled."""
        found = await self.find(record_id)
        return await self._replace(found, (letter or found.letter, found.due_ms if due_ms is None else due_ms))

    async def _replace(self, old: Pending, new: tuple[Letter, int] | None) -> bytes:
        if old.offset in old.bucket.gone:
            raise NotScheduled(f"scheduled record {old.id.hex()} is on its way")
        additions = Additions(self._mover.added)
        record_id = b""
        if new is not None:
            record_id, _ = self._mover.put_in(additions, *new)
        old.bucket.mark_gone((old.offset,))
        additions.leave(old.bucket, (old.offset,))
        try:
            await self._delivery.deliver([], additions, _never)
        except MainstemError:
            # It waits again, and may have left the memory of what is due.
            await self._mover.forget(old.bucket)
            raise
        self._mover.look()
        return record_id


def _never(letter: Letter, due_ms: int) -> None:
    raise AssertionError("nothing is delivered here")
