"""Subscriptions: logs read as queues. What is settled is in the log before anybody is told so; leases live in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from mainstem.broker.alarm import Alarm
from mainstem.broker.changes_underway import Underway
from mainstem.broker.clock import Clock
from mainstem.broker.dead_letters import DeadLetters, Rules
from mainstem.broker.subscription_reading import Available, Taken, Wish, hold_from, lease_from, measure
from mainstem.broker.subscription_wait import Wait
from mainstem.coordination.errors import NotLeased
from mainstem.coordination.subscription import Cursor, Leased, Limits, Ruling, Verdict, replay_cursors
from mainstem.coordination.subscription_entries import INDEX_SCOPE, scope_of
from mainstem.model.errors import MainstemError, OffsetOutOfRange, PeerError
from mainstem.storage.contract import Append, Commit, Edge, Engine, Mutation, Place, ReadHint

__all__ = ["Cursor", "Limits", "Ruling", "Subscriptions", "Taken", "Verdict", "Wish"]

log = logging.getLogger(__name__)

READS_MAX = 8
"""Reads that one question may cost where all that is found is taken already."""
HOLD_BYTES = 4 << 20
"""What is looked at at a time by somebody who takes much."""


def _nothing(_name: str) -> None:
    pass


class _Held:
    """A subscription with its cursors, its timer and who waits for it."""

    __slots__ = ("alarm", "cursors", "name", "underway", "waits")

    def __init__(self, name: str, clock: Clock, ring: Callable[[_Held], None]) -> None:
        self.name = name
        self.cursors: dict[int, Cursor] = {}
        self.waits: set[Wait] = set()
        self.underway: set[Underway] = set()
        self.alarm = Alarm(clock, lambda: ring(self))

    def wake(self) -> None:
        """Something may be free."""
        for wait in list(self.waits):
            wait.finish()


class Subscriptions:
    """All subscriptions of a broker."""

    def __init__(self, engine: Engine, clock: Clock, rules: Rules, letters: DeadLetters) -> None:
        self._engine = engine
        self._clock = clock
        self._rules = rules
        self._letters = letters
        self._held: dict[str, _Held] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_reload: Callable[[str], None] = _nothing
        """Called when the cursors of a subscription are as they are stored: whoever holds records says so again."""

    async def load(self) -> dict[str, bytes]:
        """Take back what is stored; answers what the index says of each."""
        entries = (await self._engine.load(INDEX_SCOPE)).entries
        index = {key.decode(): value for key, value in entries.items()}
        for name in index:
            await self._reload(self._hold(name))
        return index

    # Questions

    def cursors(self, name: str) -> Mapping[int, Cursor]:
        """Of one subscription, by log."""
        held = self._held.get(name)
        return {} if held is None else held.cursors

    def wait(self, name: str, logs: Mapping[int, int | None], seconds: float) -> Wait:
        """Wait until one of the logs may have something to lease, or for so long.

        With an offset: something at or above it; what is below was looked at and is not enough.
        """
        held = self._hold(name)
        rules = self._rules(name)
        wait = Wait(self._engine, self._clock, seconds, held.waits)
        for number, wanted in logs.items():
            cursor = held.cursors.get(number)
            if cursor is not None:
                is_full = len(cursor.leases) >= rules.limits.leases_max
                first = cursor.first_free(0 if wanted is None else wanted)
                wait.add(number, None if is_full else first, rules.committed_only)
        return wait

    async def measure(self, name: str, number: int, bytes_max: int) -> Available:
        """How much of a log there is to take, as far as so many bytes. Raises kinds of MainstemError."""
        cursor = self.cursors(name).get(number)
        rules = self._rules(name)
        if cursor is None or len(cursor.leases) >= rules.limits.leases_max:
            return Available(0, 0)
        size, offset = 0, cursor.first_free()
        for _ in range(READS_MAX):
            try:
                result = await self._engine.read(number, offset, bytes_max - size)
            except OffsetOutOfRange as error:
                # Who takes it moves the floor up: that counts as enough.
                return Available(bytes_max if offset < error.start else size, offset)
            found = measure(cursor, result, offset, rules.committed_only)
            size += found.size
            if size >= bytes_max or found.end <= offset:
                return Available(size, offset)
            offset = found.end
        return Available(bytes_max, offset)  # more than is worth to look at

    # Reading

    async def open(self, name: str, number: int, place: Place) -> None:
        """Begin to read a log there, unless it is read already. Raises kinds of MainstemError."""
        held = self._hold(name)
        if number in held.cursors:
            return
        found = await self._engine.offset_at(number, place)
        if found.offset < 0:  # nothing as young as that yet
            found = await self._engine.offset_at(number, Edge.END)
        if number not in held.cursors:
            held.cursors[number] = Cursor(number, found.offset)
            await self._store(held, [number])

    async def take(self, name: str, number: int, wish: Wish) -> Taken:
        """Lease what is free, lowest offset first, and read it. Raises kinds of MainstemError."""
        held = self._hold(name)
        rules = self._rules(name)
        cursor = held.cursors.get(number)
        if cursor is None:  # forgotten meanwhile
            return Taken([], [])
        offset = cursor.first_free()
        # A bounded wish does not look behind a batch that it has no room for.
        for _ in range(1 if wish.is_bounded else READS_MAX):
            if len(cursor.leases) >= rules.limits.leases_max:
                break
            try:
                result = await self._engine.read(number, offset, wish.bytes_max)
            except OffsetOutOfRange as error:
                if offset >= error.start:
                    break
                cursor.raise_floor(error.start)
                offset = cursor.first_free()
                continue
            if held.cursors.get(number) is not cursor:
                break
            taken = lease_from(cursor, result, offset, wish, rules.limits, rules.committed_only, self._now_ms())
            if cursor.spent:
                await self._store(held, [number])
            if taken.leased:
                held.alarm.set(self._now_ms() + rules.limits.lease_ms)
                return taken
            if result.next_offset <= offset:
                break
            offset = cursor.first_free(result.next_offset)
        return Taken([], [])

    async def hold(self, name: str, number: int, records_max: int, until: int | None) -> list[Leased]:
        """Give out what is free and committed, up to an offset, to somebody who keeps account of it himself.

        Raises kinds of MainstemError.
        """
        held = self._hold(name)
        cursor = held.cursors.get(number)
        if cursor is None:  # forgotten meanwhile
            return []
        deliveries_max = self._rules(name).limits.deliveries_max
        given: list[Leased] = []
        room = records_max
        offset = cursor.first_free()
        while room > 0 and (until is None or offset < until):
            try:
                result = await self._engine.read(number, offset, HOLD_BYTES, ReadHint.CATCH_UP)
            except OffsetOutOfRange as error:
                if offset >= error.start:
                    break
                cursor.raise_floor(error.start)
                offset = cursor.first_free()
                continue
            if held.cursors.get(number) is not cursor:
                return []  # with the cursor went what it had given out
            more = hold_from(cursor, result, offset, room, deliveries_max, until)
            given += more
            room -= sum(last - first + 1 for first, last, _ in more)
            if result.next_offset <= offset or result.next_offset >= result.stable:
                break
            offset = cursor.first_free(result.next_offset)
        if cursor.spent:
            await self._store(held, [number])
        return given

    def wake(self, name: str) -> None:
        """Something may be free."""
        held = self._held.get(name)
        if held is not None:
            held.wake()

    def take_changes(self, name: str, cursors: Sequence[Cursor]) -> Underway:
        """What has changed of these, for somebody who stores it and says how that went."""
        changes = [mutation for cursor in cursors for mutation in cursor.take_changes(scope_of(name))]
        return Underway(cursors, changes, self._hold(name).underway)

    # Settling

    async def rule(self, name: str, owner: str, rulings: Mapping[int, Sequence[Ruling]]) -> dict[int, MainstemError]:
        """Verdicts by log, each log's all or none; durable when answered. Answers the refusals."""
        held = self._hold(name)
        rules = self._rules(name)
        limits = rules.limits
        refused: dict[int, MainstemError] = {}
        is_free = False
        for number, verdicts in rulings.items():
            cursor = held.cursors.get(number)
            try:
                if cursor is None:
                    raise NotLeased(f"log {number} is not read")
                if not rules.may_renew and any(ruling.verdict is Verdict.RENEW for ruling in verdicts):
                    raise NotLeased("leases cannot be renewed in this group")
                is_free |= len(cursor.leases) >= limits.leases_max
                cursor.rule(owner, verdicts, limits, self._now_ms())
                is_free |= any(ruling.verdict is Verdict.RELEASE for ruling in verdicts)
            except NotLeased as error:
                refused[number] = error
        if is_free:
            held.wake()
        try:
            await self._store(held, [number for number in rulings if number not in refused])
        except MainstemError as error:
            return {number: refused.get(number, error) for number in rulings}
        return refused

    def give_back(self, name: str, owner: str) -> None:
        """The owner is gone: free all that it had."""
        held = self._held.get(name)
        if held is None:
            return
        limits = self._rules(name).limits
        freed = [number for number, cursor in held.cursors.items() if cursor.give_back(owner, limits)]
        if freed:
            held.wake()
            self._store_later(held, freed)

    # Administration

    async def move(self, name: str, places: Mapping[int, int]) -> None:
        """Begin anew at these offsets, by log."""
        held = self._hold(name)
        for number, offset in places.items():
            before = held.cursors.get(number)
            changes = [] if before is None else before.decide_forget(scope_of(name))
            cursor = Cursor(number, offset)
            await self._engine.alter((), [*changes, *cursor.take_changes(scope_of(name))])
            held.cursors[number] = cursor

    async def forget(self, name: str, logs: Iterable[int]) -> None:
        """Do not know anything of these logs any more."""
        held = self._hold(name)
        known = [number for number in logs if number in held.cursors]
        await self._engine.alter(
            (), [m for number in known for m in held.cursors[number].decide_forget(scope_of(name))]
        )
        for number in known:
            del held.cursors[number]

    async def delete(self, name: str) -> None:
        """Remove a subscription with all that is known of it."""
        held = self._hold(name)
        changes = [m for cursor in held.cursors.values() for m in cursor.decide_forget(scope_of(name))]
        await self._engine.alter((), [*changes, Mutation(INDEX_SCOPE, name.encode(), None)])
        held.alarm.cancel()
        self._held.pop(name, None)

    # -----------------------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _hold(self, name: str) -> _Held:
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = _Held(name, self._clock, self._look)
        return held

    async def _reload(self, held: _Held) -> None:
        """Back to what is stored, without leases."""
        entries = (await self._engine.load(scope_of(held.name))).entries
        held.cursors = replay_cursors(entries.items())
        self.on_reload(held.name)
        held.wake()

    async def _store(self, held: _Held, logs: Sequence[int]) -> None:
        """Everything that has changed, with the dead letters of it, in one commit. Raises kinds of MainstemError."""
        cursors = [held.cursors[number] for number in logs if number in held.cursors]
        letters: dict[int, list[Append]] = {}
        spent = [(cursor, cursor.take_spent()) for cursor in cursors if cursor.spent]
        try:
            for cursor, offsets in spent:
                letters[cursor.log] = await self._letters.write(held.name, cursor, offsets)
        except BaseException:  # whoever asked may have gone meanwhile
            for cursor, offsets in spent:
                cursor.put_off(offsets)
            raise
        for cursor, offsets in spent:
            cursor.bury(offsets)
        current = [cursor for cursor in cursors if held.cursors.get(cursor.log) is cursor]
        appends = [append for cursor in current for append in letters.get(cursor.log, ())]
        earlier = list(held.underway)
        if any(cursor.is_changed for cursor in current):
            await self._commit(held, current, appends)
            if not letters:
                return  # nobody was let in between the change and the commit
        # Somebody else's commit may have taken some along: what is answered is durable all the same.
        for underway in earlier:
            await underway.wait()
        if any(underway.is_back for underway in earlier):
            await self._store(held, logs)

    async def _commit(self, held: _Held, cursors: Sequence[Cursor], appends: Sequence[Append]) -> None:
        underway = self.take_changes(held.name, cursors)
        try:
            (outcome,) = await self._engine.commit([Commit(appends=appends, state=underway.changes)], patient=True)
            if appends and isinstance(outcome, PeerError):
                log.warning("subscription %s: dead letters are refused and left out: %s", held.name, outcome)
                (outcome,) = await self._engine.commit([Commit(state=underway.changes)])
        except BaseException:
            underway.put_back()  # whether it is stored is not known, and to store it twice does no harm
            raise
        if isinstance(outcome, MainstemError):
            underway.refused(outcome)
            await self._reload(held)
            raise outcome
        underway.stored()

    def _store_later(self, held: _Held, logs: list[int]) -> None:
        async def store() -> None:
            try:
                await self._store(held, logs)
            except MainstemError as error:
                log.warning("subscription %s: what was given back could not be stored: %s", held.name, error)

        task = asyncio.get_running_loop().create_task(store())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _look(self, held: _Held) -> None:
        limits, now_ms = self._rules(held.name).limits, self._now_ms()
        freed = [number for number, cursor in held.cursors.items() if cursor.pass_time(limits, now_ms)]
        for cursor in held.cursors.values():
            held.alarm.set(cursor.next_deadline_ms())
        if freed:
            held.wake()
            self._store_later(held, freed)
