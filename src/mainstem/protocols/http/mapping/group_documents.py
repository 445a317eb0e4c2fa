"""Groups as they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

import msgspec

from mainstem.broker.broker import Broker
from mainstem.broker.groups.directed_groups import DirectedGroup
from mainstem.broker.groups.groups import Group, TopicPlace
from mainstem.broker.groups.share_groups import ShareGroup
from mainstem.broker.groups.streams_groups import StreamsGroup
from mainstem.model.errors import PeerError
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, After, Limit
from mainstem.wire.kafka.consumer_protocol import PROTOCOL_TYPE, decode_assignment


class GroupPath(msgspec.Struct, frozen=True):
    """Which group."""

    name: str


class OffsetsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which of the group's offsets."""

    after: Annotated[str, msgspec.Meta(description="Go on behind this one, as TOPIC:PARTITION.")] = ""
    limit: Limit = PAGE_ITEMS_MAX


class GroupsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the list."""

    search: Annotated[str, msgspec.Meta(description="Only names that contain this text.")] = ""
    after: After = ""
    limit: Limit = PAGE_ITEMS_DEFAULT


class GroupSeekWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a group is to go on: one of `to`, `time_ms`, `offset` and `by`."""

    to: Literal["start", "end"] | None = None
    time_ms: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None = None
    by: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | None = None
    """This number of records on, or back where it is negative."""
    topics: list[str] = []
    """Only these, with all their partitions; without any, those that the group has offsets of."""
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
    dry_run: bool = False
    """Show what would move, and move nothing."""


class GroupMove(msgspec.Struct, frozen=True):
    """Where a group was in a partition, and where it goes on."""

    topic: str
    partition: int
    before: int | None
    after: int


class GroupSeekDocument(msgspec.Struct, frozen=True):
    """What moved, or would."""

    dry_run: bool
    moves: list[GroupMove]


class GroupSummary(msgspec.Struct, frozen=True):
    """A group in a list."""

    name: str
    state: str
    members: int
    is_shared: bool


class GroupPage(msgspec.Struct, frozen=True):
    """Some groups, by name."""

    groups: list[GroupSummary]
    next: str | None
    """Where the list goes on."""


class AssignedPartitions(msgspec.Struct, frozen=True):
    """Partitions of one topic."""

    topic: str
    partitions: list[int]


class MemberDocument(msgspec.Struct, frozen=True):
    """A member of a group."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str | None
    assigned: list[AssignedPartitions]


class GroupOffset(msgspec.Struct, frozen=True):
    """How far a group has come in a partition."""

    topic: str
    partition: int
    offset: int
    """Where the group goes on; of a share group, below which all is settled."""
    start: int
    """Of the partition: the lowest offset that is still there."""
    end: int
    committed_ms: int | None
    """Null for a share group, which settles record by record."""
    note: str
    lag_messages: int
    lag_seconds: float | None
    """Age of the first record not yet consumed; 0 when there is none, null when it has no timestamp."""


class GroupDocument(msgspec.Struct, frozen=True):
    """A group."""

    name: str
    state: str
    is_shared: bool
    """Whether members take records from the same partitions side by side."""
    assigned_by: Literal["members", "broker"]
    """Who says which member works on what."""
    generation: int
    """Grows with every change of that."""
    protocol: str | None
    """In which way partitions are shared."""
    members: list[MemberDocument]
    lag_messages: int
    """Over all partitions."""
    lag_seconds: float | None
    """The largest of all partitions."""
    offsets: list[GroupOffset]
    next: str | None
    """Where the list of offsets goes on."""


AnyGroup: TypeAlias = Group | DirectedGroup | ShareGroup | StreamsGroup


def group_names(broker: Broker) -> list[str]:
    """Of groups of all kinds."""
    return [*broker.groups.names(), *broker.share_groups.names()]


def group_of(broker: Broker, name: str) -> AnyGroup:
    """The group of this name, of either kind. Raises UnknownGroup."""
    if name in broker.share_groups:
        return broker.share_groups.get(name)
    if name in broker.streams_groups:
        return broker.streams_groups.get(name)
    directed = broker.directed_groups
    return directed.get(name) if directed.has_members(name) else broker.groups.get(name)


def is_shared(group: AnyGroup) -> bool:
    """Whether members take records side by side."""
    return isinstance(group, ShareGroup)


def state_of(group: AnyGroup) -> str:
    """In one word."""
    if isinstance(group, ShareGroup):
        return "stable" if group.members else "empty"
    state: str = group.state.value
    return state


def describe_sharing(group: AnyGroup) -> tuple[Literal["members", "broker"], int, str | None]:
    """Who assigns, how often that has changed, and in which way."""
    if isinstance(group, ShareGroup):
        return "broker", group.epoch, None
    if isinstance(group, StreamsGroup):
        return "broker", group.epoch, "streams"
    if isinstance(group, DirectedGroup):
        return "broker", group.epoch, group.assignor
    return "members", group.generation, group.protocol


def describe_member(group: AnyGroup, member_id: str, broker: Broker) -> MemberDocument:
    """A member, with what it works on."""
    if isinstance(group, ShareGroup):
        sharing = group.members[member_id]
        return MemberDocument(sharing.id, None, sharing.client_id, None, _describe_places(sharing.share, broker))
    if isinstance(group, StreamsGroup):
        working = group.members[member_id]
        consumed = [AssignedPartitions(name, list(found)) for name, found in group.consumed_by(working).items()]
        return MemberDocument(working.id, None, working.client_id, working.client_host, consumed)
    if isinstance(group, DirectedGroup):
        directed = group.members[member_id]
        assigned = _describe_places(directed.share, broker)
        return MemberDocument(directed.id, directed.instance_id, directed.client_id, None, assigned)
    member = group.members[member_id]
    assigned = _decode_assigned(member.assignment) if group.protocol_type == PROTOCOL_TYPE else []
    return MemberDocument(member.id, member.instance_id, member.client_id, member.client_host, assigned)


def _describe_places(places: Iterable[TopicPlace], broker: Broker) -> list[AssignedPartitions]:
    by_topic: dict[str, list[int]] = {}
    for place in sorted(places):
        topic = broker.topics.by_id.get(place.topic)
        if topic is not None:
            by_topic.setdefault(topic.name, []).append(place.partition)
    return [AssignedPartitions(name, partitions) for name, partitions in sorted(by_topic.items())]


def _decode_assigned(assignment: bytes) -> list[AssignedPartitions]:
    if not assignment:
        return []
    try:
        _, said = decode_assignment(assignment)
    except PeerError:
        return []  # Members may tell each other what they like.
    return [AssignedPartitions(entry.topic, list(entry.partitions)) for entry in said.assigned_partitions]
