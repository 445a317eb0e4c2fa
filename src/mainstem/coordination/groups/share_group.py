"""A share group (KIP-932): members work on the same partitions side by side, each record given to one of them at a time.

The group has an epoch, raised whenever members, subscriptions or topics change. There is nothing to hand over, so a member
has its new share with its next heartbeat. Members live in memory: after a restart they are unknown and join again. Pure: time
is passed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import msgspec

from mainstem.coordination.catalog.name_pattern import NamePattern
from mainstem.coordination.errors import FencedMember, GroupFull, UnknownMember
from mainstem.coordination.groups.assignors import Shares, Subscriptions
from mainstem.coordination.groups.group_offsets import TopicPlace
from mainstem.coordination.groups.heartbeats import JOINS, LEAVES, NOTHING, Beat, BeatRules, HeartbeatReply
from mainstem.coordination.groups.interest import Interest
from mainstem.coordination.groups.topology import TopicShape, Topology
from mainstem.coordination.subscriptions.entries import INDEX_SCOPE
from mainstem.storage.contract import Mutation

_encode = msgspec.msgpack.Encoder().encode
decode_epoch = msgspec.msgpack.Decoder(int).decode


class ShareMember:
    """A member that is believed to live until its deadline."""

    __slots__ = (
        "client_host",
        "client_id",
        "deadline_ms",
        "epoch",
        "id",
        "pattern",
        "previous_epoch",
        "rack_id",
        "share",
        "topics",
    )

    def __init__(self, member_id: str) -> None:
        self.id = member_id
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.topics: frozenset[str] = frozenset()
        self.pattern: NamePattern | None = None  # share groups have none
        self.epoch = 0
        self.previous_epoch = 0
        self.share = NOTHING
        self.deadline_ms = 0


def assign_shared(subscriptions: Subscriptions, topics: Mapping[str, TopicShape]) -> Shares:
    """Every partition to somebody and every member something: partitions are shared where members outnumber them."""
    shares: Shares = {member: set() for member in subscriptions}
    for name, shape in topics.items():
        eligible = sorted(member for member, wanted in subscriptions.items() if name in wanted)
        for turn in range(max(len(eligible), shape.partitions) if eligible else 0):
            place = TopicPlace(shape.id, turn % shape.partitions)
            shares[eligible[turn % len(eligible)]].add(place)
    return shares


class ShareGroup:
    """One group."""

    def __init__(self, name: str, rules: BeatRules, epoch: int = 0) -> None:
        self.name = name
        self.rules = rules
        self.epoch = epoch
        self.members: dict[str, ShareMember] = {}
        self._target: dict[str, Set[TopicPlace]] = {}
        self._interest = Interest()
        self.stored_epoch = epoch

    def decide_epoch(self) -> list[Mutation]:
        """The epoch, so that it never goes back, and with it that there is the group."""
        return [Mutation(INDEX_SCOPE, self.name.encode(), _encode(self.epoch))]

    def beat(self, beat: Beat, topology: Topology, now_ms: int) -> HeartbeatReply:
        """What a member says, and what it is told. Raises kinds of GroupError."""
        member = self.members.get(beat.member_id)
        if beat.epoch == LEAVES:
            if member is None:
                raise UnknownMember(f"{beat.member_id} is no member of {self.name}")
            self.remove(member, topology)
            return HeartbeatReply(beat.member_id, LEAVES, None)
        if beat.epoch == JOINS:
            is_changed = member is None
            if member is None:
                if len(self.members) >= self.rules.members_max:
                    raise GroupFull(f"{self.rules.members_max} members")
                member = self.members[beat.member_id] = ShareMember(beat.member_id)
        else:
            is_changed = False
            if member is None:
                raise UnknownMember(f"{beat.member_id} is no member of {self.name}")
            if beat.epoch not in (member.epoch, member.previous_epoch):
                raise FencedMember(f"epoch {beat.epoch}; the current one of {member.id} is {member.epoch}")
        member.deadline_ms = now_ms + self.rules.session_timeout_ms
        member.client_id = beat.client_id
        member.client_host = beat.client_host
        if beat.rack_id is not None:
            member.rack_id = beat.rack_id
        if beat.topics is not None and beat.topics != member.topics:
            member.topics, is_changed = beat.topics, True
        if is_changed or self._interest.has_moved(self.members.values(), topology):
            self._retarget(topology)
        is_asked = beat.epoch in (JOINS, member.previous_epoch) or beat.topics is not None
        before = member.share
        member.share = frozenset(self._target[member.id])
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        return HeartbeatReply(member.id, member.epoch, member.share if is_asked or member.share != before else None)

    def remove(self, member: ShareMember, topology: Topology) -> None:
        """A member goes."""
        del self.members[member.id]
        self._retarget(topology)

    def _retarget(self, topology: Topology) -> None:
        self.epoch += 1
        self._interest.look(self.members.values(), topology)
        subscriptions = {member_id: self.members[member_id].topics for member_id in sorted(self.members)}
        self._target = dict(assign_shared(subscriptions, self._interest.shapes))

    def next_deadline_ms(self) -> int | None:
        """When `late` has somebody to name."""
        return min((member.deadline_ms for member in self.members.values()), default=None)

    def late(self, now_ms: int) -> list[ShareMember]:
        """Members that were silent for too long."""
        return [member for member in self.members.values() if member.deadline_ms <= now_ms]
