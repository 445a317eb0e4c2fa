"""Groups: their members, their offsets, and the time that passes for them.

A name is that of one group, whether members or the broker assign partitions. Here are groups whose members assign, and the
offsets of all; those that the broker assigns are in `directed_groups` and `streams_groups`. A group may change from one
kind to the other.

Membership lives in memory and is stored with every assignment, so that members go on after a restart; offsets are in the
log before a commit of them is answered.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TypeAlias

from mainstem.broker.alarm import Alarm
from mainstem.broker.clock import Clock, Timer
from mainstem.broker.groups.directed_groups import DirectedGroups
from mainstem.broker.groups.streams_groups import StreamsGroups
from mainstem.coordination.errors import (
    GroupNotEmpty,
    InconsistentProtocol,
    InvalidGroupName,
    InvalidSessionTimeout,
    OffsetNoteTooLarge,
    StaleGeneration,
    UnknownGroup,
    UnknownMember,
)
from mainstem.coordination.groups.classic_group import Group, GroupState
from mainstem.coordination.groups.classic_members import Assigned, GroupRules, Joined, JoinWish
from mainstem.coordination.groups.directed_group import DirectedGroup
from mainstem.coordination.groups.group_offsets import (
    INDEX_SCOPE,
    CommittedOffset,
    GroupRecord,
    TopicPlace,
    scope_of,
)
from mainstem.coordination.groups.heartbeats import JOINS, Beat, HeartbeatReply
from mainstem.coordination.groups.mixed_group import downgraded, upgraded
from mainstem.model.errors import MainstemError
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Engine, Mutation

__all__ = [
    "Assigned",
    "CommittedOffset",
    "Group",
    "GroupRules",
    "GroupState",
    "Groups",
    "JoinWish",
    "Joined",
    "TopicPlace",
]

log = logging.getLogger(__name__)

EXPIRY_CHECK_S = 600


OnCommit: TypeAlias = "Callable[[str, Mapping[TopicPlace, int], Mapping[TopicPlace, int]], None]"


def _nobody_asks(_name: str, _before: Mapping[TopicPlace, int], _after: Mapping[TopicPlace, int]) -> None:
    pass


class _GroupEntry:
    """A group with its stored record and its timer."""

    __slots__ = ("alarm", "group", "record")

    def __init__(self, group: Group, record: GroupRecord, clock: Clock, ring: Callable[[_GroupEntry], None]) -> None:
        self.group = group
        self.record = record
        self.alarm = Alarm(clock, lambda: ring(self))


class Groups:
    """All groups of a broker."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        topics: Container[uuid.UUID],
        directed: DirectedGroups,
        streams: StreamsGroups,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._topics = topics
        self._directed = directed
        """Groups of the other kind share names and offsets with these."""
        self._streams = streams
        """As do these."""
        streams.is_taken = self._is_not_streams
        directed.downgrade = self._take_over
        directed.reinstate = self._give_up
        self._rules = GroupRules()
        self._entries: dict[str, _GroupEntry] = {}
        self._expiry: Timer | None = None
        self._expiring: asyncio.Future[None] | None = None
        self.on_commit: OnCommit = _nobody_asks
        """Told of offsets that clients have committed: where each was before, and is now."""

    async def load(self) -> None:
        """Take back what is stored."""
        for key in (await self._engine.load(INDEX_SCOPE)).entries:
            name = key.decode()
            entry = self._make_entry(name)
            entry.record.is_indexed = True
            for stored_key, value in (await self._engine.load(scope_of(name))).entries.items():
                entry.record.replay(Mutation(scope_of(name), stored_key, value))
            if entry.record.entry is not None:
                entry.group.restore(entry.record.entry, self._now_ms())
                self._arm(entry)

    def govern(self, rules: GroupRules) -> None:
        """Set the rules; for the groups of a broker that has just been opened. Those of directed groups are set before."""
        self._rules = rules
        for entry in self._entries.values():
            entry.group.rules = rules
        self._directed.wake()
        self._streams.wake()
        if self._expiry is None:
            self._expiry = self._clock.call_later(EXPIRY_CHECK_S, self._expiry_due)

    # Members

    async def join(self, name: str, wish: JoinWish) -> Answer[Joined]:
        """Take part; the inner answer comes when the generation begins. Raises kinds of GroupError."""
        if not name:
            raise InvalidGroupName("a group has a name")
        if not self._rules.session_timeout_ms_min <= wish.session_timeout_ms <= self._rules.session_timeout_ms_max:
            low, high = self._rules.session_timeout_ms_min, self._rules.session_timeout_ms_max
            raise InvalidSessionTimeout(f"{wish.session_timeout_ms} ms is not within {low} and {high}")
        await self._delete_assigned(name)
        if self._directed.has_members(name):
            return Answer.of(await self._directed.join(name, wish))
        if self._streams.has_members(name):
            raise InconsistentProtocol(f"{name} is a streams group")
        entry = self._entries.get(name)
        if entry is None:
            if wish.member_id:
                raise UnknownMember(f"{name} has no members")
            entry = self._make_entry(name)
        try:
            answer = entry.group.join(wish, self._now_ms())
        finally:
            self._arm(entry)
        if entry.group.is_unsaved:
            await self._save(entry)
        return answer

    async def sync(
        self,
        name: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocols: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
    ) -> Answer[Assigned]:
        """Learn one's assignment; the leader brings all of them. Raises kinds of GroupError."""
        if self._directed.has_members(name):
            return Answer.of(self._directed.sync(name, member_id, instance_id, generation, protocols))
        entry = self._member_of(name)
        group = entry.group
        had_proposal = group.proposal is not None
        answer = group.sync(member_id, instance_id, generation, protocols, assignments, self._now_ms())
        if group.proposal is not None and not had_proposal:
            try:
                await self._save(entry)
                group.assign(generation, self._now_ms())
            except MainstemError as error:
                group.fail_assignment(generation, error, self._now_ms())
            self._arm(entry)
        return answer

    def heartbeat(self, name: str, member_id: str, instance_id: str | None, generation: int) -> None:
        """The member lives. Raises kinds of GroupError."""
        if self._directed.has_members(name):
            self._directed.heartbeat(name, member_id, instance_id, generation)
        else:
            self._member_of(name).group.heartbeat(member_id, instance_id, generation, self._now_ms())

    async def leave(self, name: str, member_id: str, instance_id: str | None) -> str:
        """The member goes; answers its id. Raises kinds of GroupError."""
        if self._directed.has_members(name):
            return await self._directed.leave(name, member_id, instance_id)
        entry = self._member_of(name)
        gone = entry.group.leave(member_id, instance_id, self._now_ms())
        self._advanced(entry)
        return gone

    # Members of the newer protocol

    async def beat(self, name: str, beat: Beat) -> HeartbeatReply:
        """What a member says, and what it is told. Makes the group a directed one. Raises kinds of GroupError."""
        if name in self._streams:
            raise UnknownGroup(f"Group {name} is not a consumer group.")
        entry = self._entries.get(name)
        if entry is None or not entry.group.members:
            return await self._directed.beat(name, beat)
        if beat.epoch != JOINS:
            raise UnknownGroup(f"Group {name} is not a consumer group.")
        classic = entry.group
        rules, topology = self._directed.rules(name), self._directed.topology
        group = upgraded(classic, rules, topology, self._now_ms())
        entry.group = self._empty(name, classic.generation)
        changes = entry.record.decide_entry(entry.group.entry(self._clock.now_ms()))
        try:
            told = await self._directed.adopt(group, beat, changes)
        except MainstemError:
            entry.group = classic
            self._arm(entry)
            raise
        for mutation in changes:
            entry.record.replay(mutation)
        classic.abandon()
        return told

    def _take_over(self, directed: DirectedGroup) -> list[Mutation]:
        """Only members of the classic protocol are left: from now on they share out among themselves."""
        entry = self._entries.get(directed.name) or self._make_entry(directed.name)
        stored = downgraded(directed, self._directed.topology, self._clock.now_ms())
        changes = entry.record.decide_entry(stored)
        entry.group.restore(stored, self._now_ms())
        entry.group.begin_anew(self._now_ms())
        self._arm(entry)
        for mutation in changes:
            entry.record.replay(mutation)
        return changes

    def _give_up(self, name: str) -> None:
        """The broker assigns again: what had been taken over could not be stored."""
        entry = self._entries.get(name)
        if entry is not None:
            before, entry.group = entry.group, self._empty(name, entry.group.generation)
            before.abandon()

    # Offsets

    def check_commit(
        self,
        name: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        places: Iterable[tuple[str, int]] = (),
    ) -> None:
        """Whether this caller may commit offsets of these partitions, by topic name, now. Raises kinds of GroupError."""
        if not name:
            raise InvalidGroupName("a group has a name")
        if name in self._streams:
            self._streams.check_commit(name, member_id, generation, places)
            return
        if self._directed.has_members(name):
            self._directed.get(name).check_commit(member_id, instance_id, generation)
            return
        entry = self._entries.get(name)
        if entry is not None:
            entry.group.check_commit(member_id, instance_id, generation, self._now_ms())
        elif generation >= 0:
            raise StaleGeneration(f"{name} has no generation {generation}")

    def check_fetch(self, name: str, member_id: str, epoch: int) -> None:
        """Whether a member that the broker assigns asks in its current epoch; others may ask as they like."""
        if self._directed.has_members(name):
            self._directed.get(name).check_commit(member_id, None, epoch)
        elif self._streams.has_members(name):
            self._streams.get(name).check_fetch(member_id, epoch)

    def check_note(self, note: str) -> None:
        """Whether the text beside an offset may be stored. Raises OffsetNoteTooLarge."""
        if len(note.encode()) > self._rules.offset_note_bytes_max:
            raise OffsetNoteTooLarge(f"more than {self._rules.offset_note_bytes_max} bytes")

    async def commit(self, name: str, offsets: Mapping[TopicPlace, CommittedOffset]) -> None:
        """Store offsets; the caller was checked before."""
        entry = self._entries.get(name) or self._make_entry(name)
        known = entry.record.offsets
        before = {place: known[place].offset for place in offsets if place in known}
        await self._change(entry.record, entry.record.decide_commit(offsets))
        self.on_commit(name, before, {place: committed.offset for place, committed in offsets.items()})

    def confirm(self, name: str, mutations: Sequence[Mutation]) -> None:
        """Offsets of the group are durable that were committed together with something else."""
        record = (self._entries.get(name) or self._make_entry(name)).record
        for mutation in mutations:
            record.replay(mutation)

    def offsets(self, name: str) -> Mapping[TopicPlace, CommittedOffset]:
        """All that was committed, durably; nothing for a group that is not known."""
        entry = self._entries.get(name)
        return {} if entry is None else entry.record.offsets

    async def forget_offsets(self, name: str, places: Sequence[TopicPlace]) -> None:
        """Drop committed offsets. Raises UnknownGroup."""
        record = self._known(name).record
        await self._change(record, record.decide_forget(places))

    # Administration

    def __contains__(self, name: str) -> bool:
        """Whether `names` has it."""
        entry = self._entries.get(name)
        return self._is_assigned(name) or (entry is not None and bool(entry.group.members or entry.record.is_indexed))

    def names(self) -> list[str]:
        """Of groups that have members, or of which something is stored."""
        own = {name: None for name, entry in self._entries.items() if entry.group.members or entry.record.is_indexed}
        return list(own | dict.fromkeys([*self._directed.names(), *self._streams.names()]))

    def get(self, name: str) -> Group:
        """One of them. Raises UnknownGroup."""
        return self._known(name).group

    def check_unused(self, name: str) -> None:
        """Whether a group has no members. Raises GroupNotEmpty."""
        entry = self._entries.get(name)
        is_empty = entry is None or entry.group.state is GroupState.EMPTY
        if not is_empty or self._has_assigned_members(name):
            raise GroupNotEmpty(f"{name} has members")

    async def delete(self, name: str) -> None:
        """Remove a group that has no members. Raises UnknownGroup, GroupNotEmpty."""
        entry = self._known(name)
        self.check_unused(name)
        await self._delete_assigned(name)
        del self._entries[name]
        try:
            await self._engine.alter((), entry.record.decide_delete())
        except MainstemError:
            self._entries.setdefault(name, entry)
            raise

    async def expire_offsets(self) -> None:
        """Drop offsets of groups that have been empty for long, then groups of which nothing is left."""
        for name, entry in list(self._entries.items()):
            if entry.group.state is not GroupState.EMPTY or self._has_assigned_members(name):
                continue
            record = entry.record
            gone = record.expired(self._topics, self._rules.offsets_retention_ms, self._clock.now_ms())
            if gone:
                await self._change(record, record.decide_forget(gone))
            if record.offsets or entry.group.next_deadline_ms() is not None or self._entries.get(name) is not entry:
                continue
            if record.is_indexed or self._is_assigned(name):
                await self.delete(name)
            else:
                del self._entries[name]  # asked for, and never joined
        for name in [*self._directed.names(), *self._streams.names()]:
            if name not in self._entries:
                await self._delete_assigned(name)

    # Groups of the other kinds

    def _is_assigned(self, name: str) -> bool:
        """Whether the broker assigns the group of this name, with members or without."""
        return name in self._directed or name in self._streams

    def _has_assigned_members(self, name: str) -> bool:
        return self._directed.has_members(name) or self._streams.has_members(name)

    async def _delete_assigned(self, name: str) -> None:
        """Forget that the broker assigned a group, unless it has members."""
        if not self._has_assigned_members(name):
            await self._directed.delete(name)
            await self._streams.delete(name)

    def _is_not_streams(self, name: str) -> bool:
        """Whether the group is of a kind that a streams group cannot follow: only a classic one without members can be."""
        entry = self._entries.get(name)
        return name in self._directed or (entry is not None and bool(entry.group.members))

    # -----------------------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _make_entry(self, name: str) -> _GroupEntry:
        entry = self._entries[name] = _GroupEntry(self._empty(name), GroupRecord(name), self._clock, self._on_timer)
        return entry

    def _empty(self, name: str, generation: int = 0) -> Group:
        group = Group(name, self._rules, lambda: str(uuid.uuid4()))
        group.generation = generation
        return group

    def _known(self, name: str) -> _GroupEntry:
        if name not in self:
            raise UnknownGroup(f"group {name}")
        return self._entries.get(name) or self._make_entry(name)

    def _member_of(self, name: str) -> _GroupEntry:
        if not name:
            raise InvalidGroupName("a group has a name")
        entry = self._entries.get(name)
        if entry is None:
            raise UnknownMember(f"{name} has no members")
        return entry

    async def _save(self, entry: _GroupEntry) -> None:
        entry.group.is_unsaved = False
        await self._change(entry.record, entry.record.decide_entry(entry.group.entry(self._clock.now_ms())))

    async def _change(self, record: GroupRecord, mutations: Sequence[Mutation]) -> None:
        await self._engine.alter((), mutations)
        for mutation in mutations:
            record.replay(mutation)

    def _advanced(self, entry: _GroupEntry) -> None:
        """After anything that may have moved a group by itself: keep its time, and store that it is empty."""
        self._arm(entry)
        if entry.group.is_unsaved:
            entry.group.is_unsaved = False
            mutations = entry.record.decide_entry(entry.group.entry(self._clock.now_ms()))

            def stored(answer: Answer[None]) -> None:
                # Nobody waits for this. If it was refused, offsets only expire earlier, counted from their commits.
                if answer.error is None:
                    for mutation in mutations:
                        entry.record.replay(mutation)

            self._engine.alter((), mutations).on_done(stored)

    def _arm(self, entry: _GroupEntry) -> None:
        entry.alarm.set(entry.group.next_deadline_ms())

    def _on_timer(self, entry: _GroupEntry) -> None:
        entry.group.pass_time(self._now_ms())
        self._advanced(entry)

    def _expiry_due(self) -> None:
        self._expiry = self._clock.call_later(EXPIRY_CHECK_S, self._expiry_due)
        self._expiring = asyncio.ensure_future(self._expire())

    async def _expire(self) -> None:
        try:
            await self.expire_offsets()
        except MainstemError as error:
            log.warning("offsets could not be expired, they are due again later: %s", error)
