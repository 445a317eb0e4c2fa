"""A group that is moved from one protocol to the other while its members work (KIP-848).

The first member of the newer protocol that joins makes the group a directed one. Those who still speak the classic protocol
stay: the broker assigns for them too, reads what they want out of what they used to tell their leader, and has them join
again whenever their share is to change. When the last member of the newer protocol is gone, the group is theirs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mainstem.coordination.errors import (
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceUnderWay,
    StaleGeneration,
    UnknownGroup,
    UnknownMember,
)
from mainstem.coordination.groups.classic_group import Group
from mainstem.coordination.groups.classic_members import Assigned, GroupEntry, Joined, JoinWish, Member, MemberEntry
from mainstem.coordination.groups.directed_group import DirectedGroup
from mainstem.coordination.groups.directed_members import DirectedMember
from mainstem.coordination.groups.group_offsets import TopicPlace
from mainstem.coordination.groups.heartbeats import JOINS, NOTHING, Beat, BeatRules, ClassicSide
from mainstem.coordination.groups.topology import Topology
from mainstem.wire.errors import MalformedBytes, UnknownMessage
from mainstem.wire.kafka.consumer_protocol import (
    ASSIGNMENT,
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)

NOBODY = ""
"""The leader, where none of the members leads."""


class ClassicMembers:
    """What members of the classic protocol ask of a directed group."""

    def __init__(self, group: DirectedGroup, topology: Topology) -> None:
        self._group = group
        self._topology = topology

    def join(self, wish: JoinWish, new_id: Callable[[], str], now_ms: int) -> Joined:
        """Take part, or say again what one wants. Raises kinds of GroupError."""
        group = self._group
        self._check_protocols(wish)
        said = _read_subscription(wish.protocols[0][1])
        member_id = wish.member_id
        if not member_id:
            member_id = f"{wish.instance_id or wish.client_id}-{new_id()}"
            if wish.id_required and wish.instance_id is None:
                raise MemberIdRequired(member_id)
        elif wish.instance_id is not None:
            group.find(member_id, wish.instance_id)
        beat = Beat(
            member_id,
            JOINS,
            wish.client_id,
            topics=frozenset(said.topics),
            pattern="",
            instance_id=wish.instance_id,
            rack_id=said.rack_id,
            rebalance_timeout_ms=wish.rebalance_timeout_ms,
            owned=_places(said.owned_partitions, self._topology),
            classic=ClassicSide(wish.session_timeout_ms, wish.protocols),
            client_host=wish.client_host,
        )
        told = group.beat(beat, self._topology, new_id, now_ms)
        member = group.members[told.member_id]
        member.rejoin_by_ms = now_ms + member.rebalance_timeout_ms  # until it asks for its share
        return Joined(member.epoch, PROTOCOL_TYPE, wish.protocols[0][0], NOBODY, member.id)

    def _check_protocols(self, wish: JoinWish) -> None:
        if wish.protocol_type != PROTOCOL_TYPE or not wish.protocols:
            raise InconsistentProtocol(f"the group is of the type {PROTOCOL_TYPE}")
        common = {name for name, _ in wish.protocols}
        for member in self._group.members.values():
            if member.classic is not None and member.id != wish.member_id:
                common &= {name for name, _ in member.classic.protocols}
        if not common:
            raise InconsistentProtocol("no protocol is known to all members")

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocols: tuple[str | None, str | None],
        now_ms: int,
    ) -> Assigned:
        """Learn one's share. Raises kinds of GroupError."""
        member, classic = self._find(member_id, instance_id, generation)
        name, said = classic.protocols[0]
        if protocols[0] not in (None, PROTOCOL_TYPE) or protocols[1] not in (None, name):
            raise InconsistentProtocol(f"the member uses {PROTOCOL_TYPE} {name}")
        if self._group.epoch > member.epoch and not member.revoking:
            self._await_joining(member, now_ms)
            raise RebalanceUnderWay("join first")
        member.rejoin_by_ms = None
        self._group.touch(member, now_ms)
        return Assigned(PROTOCOL_TYPE, name, _write_share(member.share, said, self._topology))

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        """The member lives. Raises kinds of GroupError: RebalanceUnderWay when it is to join again."""
        group = self._group
        member, _ = self._find(member_id, instance_id, generation)
        group.touch(member, now_ms)
        missing = group.target.get(member.id, NOTHING) - member.share
        is_free_now = bool(missing) and all(group.is_free(place, member) for place in missing)
        if member.epoch < group.epoch or member.revoking or is_free_now:
            self._await_joining(member, now_ms)
            raise RebalanceUnderWay("join again")

    def leave(self, member_id: str, instance_id: str | None) -> str:
        """The member is gone; answers its id. Raises kinds of GroupError."""
        group = self._group
        if instance_id is not None and not member_id:
            held = next((m for m in group.members.values() if m.instance_id == instance_id), None)
            member_id = "" if held is None else held.id
        member, _ = self._find(member_id, instance_id, None)
        group.remove(member, self._topology)
        return member.id

    def _find(
        self, member_id: str, instance_id: str | None, generation: int | None
    ) -> tuple[DirectedMember, ClassicSide]:
        member = self._group.find(member_id, instance_id)
        if member.classic is None or (instance_id is not None and member.instance_id != instance_id):
            raise UnknownMember(f"{member_id} is no member of the classic protocol")
        if generation is not None and generation != member.epoch:
            raise StaleGeneration(f"generation {generation}; the current one of {member_id} is {member.epoch}")
        return member, member.classic

    def _await_joining(self, member: DirectedMember, now_ms: int) -> None:
        if member.rejoin_by_ms is None:
            member.rejoin_by_ms = now_ms + member.rebalance_timeout_ms


# From one protocol to the other


def upgraded(classic: Group, rules: BeatRules, topology: Topology, now_ms: int) -> DirectedGroup:
    """The members of a classic group as those of a directed one, each with what it works on. Raises UnknownGroup."""
    refusal = f"Group {classic.name} is not a consumer group."
    if not rules.may_upgrade or classic.protocol_type != PROTOCOL_TYPE or len(classic.members) > rules.members_max:
        raise UnknownGroup(refusal)
    try:
        members = [_directed(member, classic, topology) for member in classic.members.values()]
    except InconsistentProtocol as error:
        raise UnknownGroup(f"{refusal} {error}") from None
    group = DirectedGroup(classic.name, rules)
    group.adopt(classic.generation, members)
    group.wake(now_ms)
    return group


def _directed(member: Member, group: Group, topology: Topology) -> DirectedMember:
    said = _read_subscription(member.protocols[0][1])
    directed = DirectedMember(member.id, member.instance_id)
    directed.rack_id = said.rack_id
    directed.client_id = member.client_id
    directed.client_host = member.client_host
    directed.rebalance_timeout_ms = member.rebalance_timeout_ms
    directed.topics = frozenset(said.topics)
    directed.classic = ClassicSide(member.session_timeout_ms, member.protocols)
    directed.epoch = directed.previous_epoch = group.generation
    directed.share = _read_share(member.assignment, topology)
    return directed


def downgraded(group: DirectedGroup, topology: Topology, now_ms: int) -> GroupEntry:
    """A directed group whose members all speak the classic protocol, as a generation of a classic one."""
    members = []
    for member in group.members.values():
        assert member.classic is not None
        protocols = member.classic.protocols
        share = _write_share(group.target.get(member.id, NOTHING), protocols[0][1], topology)
        members.append(
            MemberEntry(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.classic.session_timeout_ms,
                member.rebalance_timeout_ms,
                protocols,
                share,
            )
        )
    protocol = members[0].protocols[0][0]
    return GroupEntry(group.epoch, PROTOCOL_TYPE, protocol, None, tuple(members), now_ms)


# What classic members tell each other


def _read_subscription(metadata: bytes) -> Any:
    try:
        return decode_subscription(metadata)[1]
    except (MalformedBytes, UnknownMessage) as error:
        raise InconsistentProtocol(f"the subscription of a member cannot be read: {error}") from None


def _read_share(assignment: bytes, topology: Topology) -> frozenset[TopicPlace]:
    if not assignment:
        return NOTHING
    try:
        return _places(decode_assignment(assignment)[1].assigned_partitions, topology)
    except (MalformedBytes, UnknownMessage) as error:
        raise InconsistentProtocol(f"the assignment of a member cannot be read: {error}") from None


def _write_share(share: Iterable[TopicPlace], metadata: bytes, topology: Topology) -> bytes:
    """In the version in which the member speaks."""
    by_topic: dict[str, list[int]] = {}
    for place in sorted(share):
        name = topology.name_of(place.topic)
        if name is not None:
            by_topic.setdefault(name, []).append(place.partition)
    entries = [{"topic": name, "partitions": partitions} for name, partitions in by_topic.items()]
    version = min(decode_subscription(metadata)[0], ASSIGNMENT.versions.last)
    return bytes(encode_assignment({"assigned_partitions": entries}, version))


def _places(topics: Iterable[Any], topology: Topology) -> frozenset[TopicPlace]:
    return frozenset(
        TopicPlace(topology[entry.topic].id, partition)
        for entry in topics
        if entry.topic in topology
        for partition in entry.partitions
    )
