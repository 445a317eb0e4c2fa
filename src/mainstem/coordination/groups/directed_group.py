"""A group whose partitions the broker assigns (KIP-848): members say what they want and are told what to work on.

The group has an epoch, raised whenever members, subscriptions or topics change; each epoch has a target, who should work
on what. Members move to it one by one, in heartbeats:

    STABLE      has its target, or there is a newer one: go on
    REVOKING    must let go of something first, and says when it has
    WAITING     is at the epoch of the target, but something of its share is still held by another member

so that no partition is ever given to two, and nobody stops working because of the others.

While a group is moved from the classic protocol, some of its members still speak that: see `mixed_group`.

Pure: time is passed in. Whatever a call changes is noted, and `take_changes` hands it out to be stored before the member is
answered; `replay` takes stored state back.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable
from uuid import UUID

from mainstem.coordination.catalog.name_pattern import NamePattern
from mainstem.coordination.errors import (
    FencedInstance,
    FencedMember,
    GroupFull,
    InstanceInUse,
    StaleGeneration,
    StaleMember,
    UnknownAssignor,
    UnknownMember,
)
from mainstem.coordination.groups.assignors import ASSIGNORS, DEFAULT_ASSIGNOR
from mainstem.coordination.groups.directed_members import (
    ENTRY_KEY,
    INDEX_SCOPE,
    DirectedEntry,
    DirectedMember,
    decode_entry,
    decode_member,
    is_member_key,
    pack_places,
    put_entry,
    put_member,
    scope_of,
    unpack_places,
)
from mainstem.coordination.groups.group_offsets import TopicPlace
from mainstem.coordination.groups.heartbeats import JOINS, LEAVES, NOTHING, PAUSES, Beat, BeatRules, HeartbeatReply
from mainstem.coordination.groups.interest import Interest
from mainstem.coordination.groups.topology import TopicShape, Topology
from mainstem.storage.contract import Mutation


class DirectedState(enum.Enum):
    """How far the members are on the way to the target."""

    EMPTY = "empty"
    RECONCILING = "reconciling"
    STABLE = "stable"


class DirectedGroup:
    """One group."""

    def __init__(self, name: str, rules: BeatRules) -> None:
        self.name = name
        self.rules = rules
        self.epoch = 0
        self.assignor = DEFAULT_ASSIGNOR
        self.members: dict[str, DirectedMember] = {}
        self.target: dict[str, frozenset[TopicPlace]] = {}
        self._interest = Interest()
        self._changed: set[str] = set()
        self._is_changed = False

    # Storage

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one stored mutation."""
        if key == ENTRY_KEY and value is not None:
            entry = decode_entry(value)
            self.epoch, self.assignor = entry.epoch, entry.assignor
            self.target = {member: unpack_places(places) for member, places in entry.target.items()}
            self._interest.shapes = {
                name: TopicShape(UUID(bytes=id_), count) for name, (id_, count) in entry.shapes.items()
            }
        elif is_member_key(key) and value is not None:
            member = DirectedMember.restored(decode_member(value))
            self.members[member.id] = member

    def adopt(self, epoch: int, members: Iterable[DirectedMember]) -> None:
        """Begin with these members, each with the share that it has."""
        self.epoch, self._is_changed = epoch, True
        self.members = {member.id: member for member in members}
        self.target = {member.id: member.share for member in self.members.values()}
        self._changed |= self.members.keys()

    def wake(self, now_ms: int) -> None:
        """After a start, give every member a session to show that it still lives."""
        for member in self.members.values():
            self.touch(member, now_ms)

    def take_changes(self) -> list[Mutation]:
        """What has changed since the last call, to be stored."""
        mutations = []
        if self._is_changed:
            target = {member: pack_places(places) for member, places in self.target.items()}
            shapes = {name: (shape.id.bytes, shape.partitions) for name, shape in self._interest.shapes.items()}
            mutations.append(Mutation(INDEX_SCOPE, self.name.encode(), b""))
            mutations.append(put_entry(self.name, DirectedEntry(self.epoch, self.assignor, target, shapes)))
        for member_id in sorted(self._changed):
            member = self.members.get(member_id)
            mutations.append(put_member(self.name, member_id, None if member is None else member.entry()))
        self._changed.clear()
        self._is_changed = False
        return mutations

    def decide_delete(self) -> list[Mutation]:
        """Nothing is to be left of the group."""
        members = self.members.keys() | self.target.keys() | self._changed
        return [
            Mutation(INDEX_SCOPE, self.name.encode(), None),
            Mutation(scope_of(self.name), ENTRY_KEY, None),
            *(put_member(self.name, member_id, None) for member_id in sorted(members)),
        ]

    # Heartbeats

    def beat(self, beat: Beat, topology: Topology, new_id: Callable[[], str], now_ms: int) -> HeartbeatReply:
        """What a member says, and what it is told. Raises kinds of GroupError, InvalidNamePattern."""
        if beat.epoch in (LEAVES, PAUSES):
            return self._leave(beat, topology)
        if beat.assignor is not None and beat.assignor not in ASSIGNORS:
            raise UnknownAssignor(f"{beat.assignor} is not one of {', '.join(ASSIGNORS)}")
        pattern = NamePattern.compile(beat.pattern) if beat.pattern else None
        is_new = False
        if beat.epoch == JOINS:
            member, is_new = self._find_or_add_member(beat, new_id)
        else:
            member = self.find(beat.member_id, beat.instance_id)
            _check_epoch(member, beat)
        if member.classic != beat.classic:
            self._changed.add(member.id)
        is_changed = member.take(beat, pattern) or is_new
        self.touch(member, now_ms)
        if is_changed:
            self._changed.add(member.id)
            self._retarget(topology)
        elif self._interest.has_moved(self.members.values(), topology):
            self._retarget(topology)
        before = member.share
        is_joining = beat.epoch == JOINS
        self._reconcile(member, NOTHING if is_joining and beat.classic is None else beat.owned, now_ms)
        is_asked = is_joining or beat.owned is not None or beat.topics is not None or beat.pattern is not None
        return HeartbeatReply(member.id, member.epoch, member.share if is_asked or member.share != before else None)

    def _find_or_add_member(self, beat: Beat, new_id: Callable[[], str]) -> tuple[DirectedMember, bool]:
        """The member that joins, and whether the group has not had it before."""
        if beat.instance_id is not None:
            held = next((m for m in self.members.values() if m.instance_id == beat.instance_id), None)
            if held is not None and held.id != beat.member_id:
                return self._succeed(held, beat, new_id), True
        member = self.members.get(beat.member_id)
        if member is not None:
            return member, False
        if len(self.members) >= self.rules.members_max:
            raise GroupFull(f"{self.rules.members_max} members")
        member = DirectedMember(beat.member_id or new_id(), beat.instance_id)
        self.members[member.id] = member
        return member, True

    def _succeed(self, held: DirectedMember, beat: Beat, new_id: Callable[[], str]) -> DirectedMember:
        """A static member is back, as another process: it takes over what was kept for it.

        By the newer protocol it says before that it goes for a while; by the classic one it does not.
        """
        if held.epoch != PAUSES and held.classic is None and beat.classic is None:
            raise InstanceInUse(f"{held.instance_id} is in the group as {held.id}")
        member = DirectedMember(beat.member_id or new_id(), beat.instance_id)
        member.share, member.revoking = held.share | held.revoking, NOTHING
        member.topics, member.assignor, member.pattern = held.topics, held.assignor, held.pattern
        del self.members[held.id]
        self.members[member.id] = member
        self.target[member.id] = self.target.pop(held.id, NOTHING)
        self._changed |= {held.id, member.id}
        self._is_changed = True
        return member

    def _leave(self, beat: Beat, topology: Topology) -> HeartbeatReply:
        member = self.find(beat.member_id, beat.instance_id)
        if beat.epoch == PAUSES and member.instance_id is not None:
            member.epoch = PAUSES
            member.share, member.revoking, member.revoke_by_ms = member.share | member.revoking, NOTHING, None
            self._changed.add(member.id)
        else:
            self.remove(member, topology)
        return HeartbeatReply(member.id, beat.epoch, None)

    def remove(self, member: DirectedMember, topology: Topology) -> None:
        """It goes."""
        del self.members[member.id]
        self._changed.add(member.id)
        if not self.is_to_downgrade:
            self._retarget(topology)

    @property
    def is_to_downgrade(self) -> bool:
        """Whether all who are left speak the classic protocol, and may share out among themselves."""
        return self.rules.may_downgrade and bool(self.members) and all(m.classic for m in self.members.values())

    def find(self, member_id: str, instance_id: str | None = None) -> DirectedMember:
        """A member. Raises UnknownMember, FencedInstance."""
        if instance_id is not None:
            holder = next((m for m in self.members.values() if m.instance_id == instance_id), None)
            if holder is not None and holder.id != member_id:
                raise FencedInstance(f"{instance_id} is {holder.id} by now")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"{member_id or 'nobody'} is no member of {self.name}")
        return member

    def check_commit(self, member_id: str, instance_id: str | None, epoch: int) -> None:
        """Whether a member may commit offsets in this epoch. Raises kinds of GroupError."""
        member = self.find(member_id, instance_id)
        if epoch != member.epoch:
            stale = StaleMember if member.classic is None else StaleGeneration
            raise stale(f"epoch {epoch}; the current one of {member_id} is {member.epoch}")

    # The target

    @property
    def subscribed(self) -> frozenset[str]:
        """All topics that somebody asks for."""
        return self._interest.subscribed(self.members.values())

    def _retarget(self, topology: Topology) -> None:
        """Another epoch, and who should work on what in it."""
        self.epoch += 1
        self._is_changed = True
        self._interest.look(self.members.values(), topology)
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        self.assignor = max(votes, key=lambda name: (votes[name], name)) if votes else DEFAULT_ASSIGNOR
        held = {member.id: self.target.get(member.id, member.share) for member in self.members.values()}
        subscriptions = {
            member_id: self._interest.topics_of(self.members[member_id]) for member_id in sorted(self.members)
        }
        shares = ASSIGNORS[self.assignor](subscriptions, self._interest.shapes, held)
        self.target = {member_id: frozenset(places) for member_id, places in shares.items()}

    def _reconcile(self, member: DirectedMember, owned: frozenset[TopicPlace] | None, now_ms: int) -> None:
        """Bring a member as near to the target as the others allow."""
        before = (member.epoch, member.share, member.revoking)
        if member.revoking:
            if owned is None or owned & member.revoking:
                return  # It has not let go yet.
            member.revoking, member.revoke_by_ms = NOTHING, None
        target = self.target.get(member.id, NOTHING)
        surplus = member.share - target
        member.share &= target
        if surplus and (owned is None or owned & surplus):
            member.revoking = surplus
            member.revoke_by_ms = now_ms + member.rebalance_timeout_ms
        else:
            member.share |= {place for place in target - member.share if self.is_free(place, member)}
            if member.epoch != self.epoch:
                member.previous_epoch, member.epoch = max(member.epoch, 0), self.epoch
        if before != (member.epoch, member.share, member.revoking):
            self._changed.add(member.id)

    def is_free(self, place: TopicPlace, member: DirectedMember) -> bool:
        """Whether nobody else holds it."""
        return not any(
            place in other.share or place in other.revoking for other in self.members.values() if other is not member
        )

    @property
    def state(self) -> DirectedState:
        """See the enumeration."""
        if not self.members:
            return DirectedState.EMPTY
        is_stable = all(
            member.epoch == self.epoch and not member.revoking and member.share == self.target.get(member.id)
            for member in self.members.values()
        )
        return DirectedState.STABLE if is_stable else DirectedState.RECONCILING

    # Time

    def touch(self, member: DirectedMember, now_ms: int) -> None:
        """It lives."""
        classic = member.classic
        member.deadline_ms = now_ms + (classic.session_timeout_ms if classic else self.rules.session_timeout_ms)

    def next_deadline_ms(self) -> int | None:
        """When `pass_time` has something to do."""
        deadlines = [_due_ms(member) for member in self.members.values()]
        return min(deadlines, default=None)

    def pass_time(self, topology: Topology, now_ms: int) -> None:
        """Drop who is silent for too long, who does not let go, and who does not join again."""
        for member in list(self.members.values()):
            if _due_ms(member) <= now_ms:
                self.remove(member, topology)


def _due_ms(member: DirectedMember) -> int:
    limits = (member.deadline_ms, member.revoke_by_ms, member.rejoin_by_ms)
    return min(limit for limit in limits if limit is not None)


def _check_epoch(member: DirectedMember, beat: Beat) -> None:
    if beat.epoch == member.epoch:
        return
    # Our last answer may have been lost: then the member says what it said before, and owns nothing that is not its own.
    is_repeated = beat.epoch == member.previous_epoch and beat.owned is not None and beat.owned <= member.share
    if beat.epoch > member.epoch or not is_repeated:
        raise FencedMember(f"epoch {beat.epoch}; the current one of {member.id} is {member.epoch}")
