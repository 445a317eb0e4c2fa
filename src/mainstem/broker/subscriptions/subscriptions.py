"""Subscriptions: logs read as queues. What is settled is in the log before anybody is told so; leases live in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from mainstem.broker.alarm import Alarm
from mainstem.broker.clock import Clock
from mainstem.broker.dead_letters.record_letters import RecordLetters, condemn
from mainstem.broker.subscriptions.changes_underway import ChangesUnderway
from mainstem.broker.subscriptions.reading import Available, ReadRequest, Taken, hold_from, lease_from, measure
from mainstem.broker.subscriptions.wait import Wait
from mainstem.coordination.errors import NotLeased
from mainstem.coordination.groups.group_config import ShareRules
from mainstem.coordination.subscriptions.delivery_policy import DeliveryPolicy
from mainstem.coordination.subscriptions.entries import INDEX_SCOPE, scope_of
from mainstem.coordination.subscriptions.leased_cursor import (
    Leased,
    LeasedCursor,
    LeaseVerdict,
    Ruling,
    replay_cursors,
)
from mainstem.model.errors import MainstemError, OffsetOutOfRange, PeerError
from mainstem.storage.contract import Append, Commit, Edge, Engine, Mutation, Place, ReadHint

__all__ = ["DeliveryPolicy", "LeaseVerdict", "LeasedCursor", "ReadRequest", "Ruling", "Subscriptions", "Taken"]

log = logging.getLogger(__name__)

READS_MAX = 8
"""Reads that one question may cost where all that is found is taken already."""
HOLD_BYTES = 4 << 20
"""What is looked at at a time by somebody who takes much."""


def _nothing(_name: str) -> None:
    pass


class _SubscriptionEntry:
    """A subscription with its cursors, its timer and who waits for it."""

    __slots__ = ("alarm", "cursors", "name", "underway", "waits")

    def __init__(self, name: str, clock: Clock, ring: Callable[[_SubscriptionEntry], None]) -> None:
        self.name = name
        self.cursors: dict[int, LeasedCursor] = {}
        self.waits: set[Wait] = set()
        self.underway: set[ChangesUnderway] = set()
        self.alarm = Alarm(clock, lambda: ring(self))

    def wake(self) -> None:
        """Something may be free."""
        for wait in list(self.waits):
            wait.finish()


class Subscriptions:
    """All subscriptions of a broker."""

    def __init__(
        self, engine: Engine, clock: Clock, rules: Callable[[str], ShareRules], letters: RecordLetters
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._rules = rules
        self._letters = letters
        self._entries: dict[str, _SubscriptionEntry] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_reload: Callable[[str], None] = _nothing
        """Called when the cursors of a subscription are as they are stored: holders of records then say so again."""

    async def load(self) -> dict[str, bytes]:
        """Take back what is stored; answers what the index says of each."""
        entries = (await self._engine.load(INDEX_SCOPE)).entries
        index = {key.decode(): value for key, value in entries.items()}
        for name in index:
            await self._reload(self._entry(name))
        return index

    # Questions

    def cursors(self, name: str) -> Mapping[int, LeasedCursor]:
        """Of one subscription, by log."""
        entry = self._entries.get(name)
        return {} if entry is None else entry.cursors

    def wait(self, name: str, logs: Mapping[int, int | None], seconds: float) -> Wait:
        """Wait until one of the logs may have something to lease, or for so long.

        With an offset: something at or above it; what is below was looked at and is not enough.
        """
        entry = self._entry(name)
        rules = self._rules(name)
        wait = Wait(self._engine, self._clock, seconds, entry.waits)
        for number, wanted in logs.items():
            cursor = entry.cursors.get(number)
            if cursor is not None:
                is_full = rules.policy.room(len(cursor.held)) <= 0
                first = cursor.first_free(0 if wanted is None else wanted)
                wait.add(number, None if is_full else first, rules.committed_only)
        return wait

    async def measure(self, name: str, number: int, bytes_max: int) -> Available:
        """How much of a log there is to take, up to a number of bytes. Raises kinds of MainstemError."""
        cursor = self.cursors(name).get(number)
        rules = self._rules(name)
        if cursor is None or rules.policy.room(len(cursor.held)) <= 0:
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
        entry = self._entry(name)
        if number in entry.cursors:
            return
        found = await self._engine.offset_at(number, place)
        if found.offset < 0:  # nothing as young as that yet
            found = await self._engine.offset_at(number, Edge.END)
        if number not in entry.cursors:
            entry.cursors[number] = LeasedCursor(number, found.offset)
            await self._store(entry, [number])

    async def take(self, name: str, number: int, wish: ReadRequest) -> Taken:
        """Lease what is free, lowest offset first, and read it. Raises kinds of MainstemError."""
        entry = self._entry(name)
        rules = self._rules(name)
        cursor = entry.cursors.get(number)
        if cursor is None:  # forgotten meanwhile
            return Taken([], [])
        self._pass_time(entry, cursor)
        offset = cursor.first_free()
        # A bounded wish does not look behind a batch that it has no room for.
        for _ in range(1 if wish.is_bounded else READS_MAX):
            if rules.policy.room(len(cursor.held)) <= 0:
                break
            try:
                result = await self._engine.read(number, offset, wish.bytes_max)
            except OffsetOutOfRange as error:
                if offset >= error.start:
                    break
                cursor.raise_floor(error.start)
                offset = cursor.first_free()
                continue
            if entry.cursors.get(number) is not cursor:
                break
            taken = lease_from(cursor, result, offset, wish, rules.policy, rules.committed_only, self._now_ms())
            if cursor.spent:
                await self._store(entry, [number])
            if taken.leased:
                self._arm(entry, cursor)
                return taken
            if result.next_offset <= offset:
                break
            offset = cursor.first_free(result.next_offset)
        return Taken([], [])

    async def hold(self, name: str, number: int, records_max: int, until: int | None) -> list[Leased]:
        """Give out what is free and committed, up to an offset, to somebody who keeps account of it himself.

        Raises kinds of MainstemError.
        """
        entry = self._entry(name)
        cursor = entry.cursors.get(number)
        if cursor is None:  # forgotten meanwhile
            return []
        self._pass_time(entry, cursor)
        policy = self._rules(name).policy
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
            if entry.cursors.get(number) is not cursor:
                return []  # with the cursor went what it had given out
            more = hold_from(cursor, result, offset, room, policy, until)
            given += more
            room -= sum(last - first + 1 for first, last, _ in more)
            if result.next_offset <= offset or result.next_offset >= result.stable:
                break
            offset = cursor.first_free(result.next_offset)
        if cursor.spent:
            await self._store(entry, [number])
        return given

    def watch(self, name: str) -> None:
        """Something was put to rest: look again when that ends."""
        entry = self._entry(name)
        for cursor in entry.cursors.values():
            self._arm(entry, cursor)

    def wake(self, name: str) -> None:
        """Something may be free."""
        entry = self._entries.get(name)
        if entry is not None:
            entry.wake()

    def take_changes(self, name: str, cursors: Sequence[LeasedCursor]) -> ChangesUnderway:
        """What has changed of these, for somebody who stores it and says how that went."""
        changes = [mutation for cursor in cursors for mutation in cursor.take_changes(scope_of(name))]
        return ChangesUnderway(cursors, changes, self._entry(name).underway)

    # Settling

    async def rule(self, name: str, owner: str, rulings: Mapping[int, Sequence[Ruling]]) -> dict[int, MainstemError]:
        """Verdicts by log, each log's all or none; durable when answered. Answers the refusals."""
        entry = self._entry(name)
        rules = self._rules(name)
        policy = rules.policy
        refused: dict[int, MainstemError] = {}
        is_free = False
        for number, verdicts in rulings.items():
            cursor = entry.cursors.get(number)
            try:
                if cursor is None:
                    raise NotLeased(f"log {number} is not read")
                if not rules.may_renew and any(ruling.verdict is LeaseVerdict.RENEW for ruling in verdicts):
                    raise NotLeased("leases cannot be renewed in this group")
                is_free |= policy.room(len(cursor.held)) <= 0
                cursor.rule(owner, verdicts, policy, self._now_ms())
                self._arm(entry, cursor)
                is_free |= any(ruling.verdict in (LeaseVerdict.RELEASE, LeaseVerdict.RETRY) for ruling in verdicts)
            except NotLeased as error:
                refused[number] = error
        if is_free:
            entry.wake()
        try:
            await self._store(entry, [number for number in rulings if number not in refused])
        except MainstemError as error:
            return {number: refused.get(number, error) for number in rulings}
        return refused

    def give_back(self, name: str, owner: str) -> None:
        """The owner is gone: free all that it had."""
        entry = self._entries.get(name)
        if entry is None:
            return
        policy, now_ms = self._rules(name).policy, self._now_ms()
        freed = [number for number, cursor in entry.cursors.items() if cursor.drop_owner(owner, policy, now_ms)]
        if freed:
            for number in freed:
                self._arm(entry, entry.cursors[number])
            entry.wake()
            self._store_later(entry, freed)

    # Administration

    async def move(self, name: str, places: Mapping[int, int]) -> None:
        """Begin anew at these offsets, by log."""
        entry = self._entry(name)
        for number, offset in places.items():
            before = entry.cursors.get(number)
            changes = [] if before is None else before.decide_forget(scope_of(name))
            cursor = LeasedCursor(number, offset)
            await self._engine.alter((), [*changes, *cursor.take_changes(scope_of(name))])
            entry.cursors[number] = cursor

    async def forget(self, name: str, logs: Iterable[int]) -> None:
        """Do not know anything of these logs any more."""
        entry = self._entry(name)
        known = [number for number in logs if number in entry.cursors]
        await self._engine.alter(
            (), [m for number in known for m in entry.cursors[number].decide_forget(scope_of(name))]
        )
        for number in known:
            del entry.cursors[number]

    async def delete(self, name: str) -> None:
        """Remove a subscription with all that is known of it."""
        entry = self._entry(name)
        changes = [m for cursor in entry.cursors.values() for m in cursor.decide_forget(scope_of(name))]
        await self._engine.alter((), [*changes, Mutation(INDEX_SCOPE, name.encode(), None)])
        entry.alarm.cancel()
        self._entries.pop(name, None)

    # -----------------------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self._clock.now_ms()

    def _arm(self, entry: _SubscriptionEntry, cursor: LeasedCursor) -> None:
        """Look again when the next lease or rest ends."""
        due_ms = cursor.next_due_ms()
        if due_ms is not None:
            entry.alarm.set(int(self._clock.monotonic() * 1000) + due_ms - self._now_ms())

    def _entry(self, name: str) -> _SubscriptionEntry:
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = _SubscriptionEntry(name, self._clock, self._on_timer)
        return entry

    async def _reload(self, entry: _SubscriptionEntry) -> None:
        """Back to what is stored, without leases."""
        entries = (await self._engine.load(scope_of(entry.name))).entries
        entry.cursors = replay_cursors(entries.items())
        for cursor in entry.cursors.values():
            self._arm(entry, cursor)
        self.on_reload(entry.name)
        entry.wake()

    async def _store(self, entry: _SubscriptionEntry, logs: Sequence[int]) -> None:
        """Everything that has changed, with the dead letters of it, in one commit. Raises kinds of MainstemError."""
        cursors = [entry.cursors[number] for number in logs if number in entry.cursors]
        letters: dict[int, list[Append]] = {}
        spent = [(cursor, cursor.take_spent()) for cursor in cursors if cursor.spent]
        try:
            for cursor, offsets in spent:
                target = self._rules(entry.name).policy.dead_letter
                letters[cursor.log] = await self._letters.of_records(
                    entry.name, cursor.log, target, condemn(cursor, offsets)
                )
        except BaseException:  # the caller may have gone meanwhile
            for cursor, offsets in spent:
                cursor.put_off(offsets)
            raise
        for cursor, offsets in spent:
            cursor.bury(offsets)
        current = [cursor for cursor in cursors if entry.cursors.get(cursor.log) is cursor]
        appends = [append for cursor in current for append in letters.get(cursor.log, ())]
        earlier = list(entry.underway)
        if any(cursor.is_changed for cursor in current):
            await self._commit(entry, current, appends)
            if not letters:
                return  # nobody was let in between the change and the commit
        # Somebody else's commit may have taken some along: what is answered is durable all the same.
        for underway in earlier:
            await underway.wait()
        if any(underway.is_back for underway in earlier):
            await self._store(entry, logs)

    async def _commit(
        self, entry: _SubscriptionEntry, cursors: Sequence[LeasedCursor], appends: Sequence[Append]
    ) -> None:
        underway = self.take_changes(entry.name, cursors)
        try:
            (outcome,) = await self._engine.commit([Commit(appends=appends, state=underway.changes)], patient=True)
            if appends and isinstance(outcome, PeerError):
                log.warning("subscription %s: dead letters are refused and left out: %s", entry.name, outcome)
                (outcome,) = await self._engine.commit([Commit(state=underway.changes)])
        except BaseException:
            underway.put_back()  # whether it is stored is not known, and to store it twice does no harm
            raise
        if isinstance(outcome, MainstemError):
            underway.refused(outcome)
            await self._reload(entry)
            raise outcome
        underway.stored()

    def _store_later(self, entry: _SubscriptionEntry, logs: list[int]) -> None:
        async def store() -> None:
            try:
                await self._store(entry, logs)
            except MainstemError as error:
                log.warning("subscription %s: what was given back could not be stored: %s", entry.name, error)

        task = asyncio.get_running_loop().create_task(store())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _pass_time(self, entry: _SubscriptionEntry, cursor: LeasedCursor) -> None:
        """Timers ring a little late: a caller that takes gets what is due by now."""
        due_ms = cursor.next_due_ms()
        if due_ms is not None and due_ms <= self._now_ms():
            self._on_timer(entry)

    def _on_timer(self, entry: _SubscriptionEntry) -> None:
        policy, now_ms = self._rules(entry.name).policy, self._now_ms()
        freed = [number for number, cursor in entry.cursors.items() if cursor.free_late(policy, now_ms)]
        for cursor in entry.cursors.values():
            self._arm(entry, cursor)
        if freed:
            entry.wake()
            self._store_later(entry, freed)
