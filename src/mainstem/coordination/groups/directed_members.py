"""Members of a directed group, while they live and as they are stored."""

from __future__ import annotations

from uuid import UUID

import msgspec

from mainstem.coordination.catalog.name_pattern import NamePattern
from mainstem.coordination.groups.group_offsets import TopicPlace
from mainstem.coordination.groups.heartbeats import NOTHING, Beat, ClassicSide
from mainstem.storage.contract import Mutation

INDEX_SCOPE = "directed"
"""Which directed groups there are: a key for each."""
ENTRY_KEY = b"group"
_MEMBER_PREFIX = b"member/"

AssignedPartition = tuple[bytes, int]


class DirectedMemberEntry(msgspec.Struct, frozen=True, array_like=True):
    """A member as it is stored."""

    id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    rebalance_timeout_ms: int
    topics: tuple[str, ...]
    assignor: str | None
    epoch: int
    previous_epoch: int
    share: tuple[AssignedPartition, ...]
    revoking: tuple[AssignedPartition, ...]
    pattern: str = ""
    classic: ClassicSide | None = None
    client_host: str = ""


class DirectedEntry(msgspec.Struct, frozen=True, array_like=True):
    """A directed group as it is stored, without its members."""

    epoch: int
    assignor: str
    target: dict[str, tuple[AssignedPartition, ...]]
    shapes: dict[str, tuple[bytes, int]]


class DirectedMember:
    """A member that is believed to live until its deadline."""

    __slots__ = (
        "assignor",
        "classic",
        "client_host",
        "client_id",
        "deadline_ms",
        "epoch",
        "id",
        "instance_id",
        "pattern",
        "previous_epoch",
        "rack_id",
        "rebalance_timeout_ms",
        "rejoin_by_ms",
        "revoke_by_ms",
        "revoking",
        "share",
        "topics",
    )

    def __init__(self, member_id: str, instance_id: str | None) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.rebalance_timeout_ms = 0
        self.topics: frozenset[str] = frozenset()
        self.pattern: NamePattern | None = None
        self.assignor: str | None = None
        self.classic: ClassicSide | None = None
        """Of one that speaks the classic protocol."""
        self.epoch = 0
        self.previous_epoch = 0
        self.share = NOTHING
        """What it may work on."""
        self.revoking = NOTHING
        """What it is to let go of, and may still hold."""
        self.deadline_ms = 0
        self.revoke_by_ms: int | None = None
        self.rejoin_by_ms: int | None = None
        """When one of the classic protocol must have done the next step of joining."""

    def take(self, beat: Beat, pattern: NamePattern | None) -> bool:
        """What it says counts from now on; answers whether that concerns the assignment."""
        before = self._wishes()
        if beat.topics is not None:
            self.topics = beat.topics
        if beat.pattern is not None:
            self.pattern = pattern
        if beat.assignor is not None:
            self.assignor = beat.assignor
        if beat.rack_id is not None:
            self.rack_id = beat.rack_id
        if beat.rebalance_timeout_ms >= 0:
            self.rebalance_timeout_ms = beat.rebalance_timeout_ms
        self.client_id = beat.client_id
        self.client_host = beat.client_host
        self.classic = beat.classic
        return before != self._wishes()

    def _wishes(self) -> tuple[frozenset[str], str | None, str | None]:
        return self.topics, self.assignor, None if self.pattern is None else self.pattern.text

    def entry(self) -> DirectedMemberEntry:
        """As stored."""
        return DirectedMemberEntry(
            self.id,
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.rebalance_timeout_ms,
            tuple(sorted(self.topics)),
            self.assignor,
            self.epoch,
            self.previous_epoch,
            pack_places(self.share),
            pack_places(self.revoking),
            "" if self.pattern is None else self.pattern.text,
            self.classic,
            self.client_host,
        )

    @classmethod
    def restored(cls, entry: DirectedMemberEntry) -> DirectedMember:
        """From storage."""
        member = cls(entry.id, entry.instance_id)
        member.rack_id = entry.rack_id
        member.client_id = entry.client_id
        member.client_host = entry.client_host
        member.rebalance_timeout_ms = entry.rebalance_timeout_ms
        member.topics = frozenset(entry.topics)
        member.assignor = entry.assignor
        member.epoch, member.previous_epoch = entry.epoch, entry.previous_epoch
        member.share, member.revoking = unpack_places(entry.share), unpack_places(entry.revoking)
        member.pattern = NamePattern.compile(entry.pattern) if entry.pattern else None
        member.classic = entry.classic
        return member


def pack_places(places: frozenset[TopicPlace]) -> tuple[AssignedPartition, ...]:
    """For storage."""
    return tuple(sorted((place.topic.bytes, place.partition) for place in places))


def unpack_places(places: tuple[AssignedPartition, ...]) -> frozenset[TopicPlace]:
    """From storage."""
    return frozenset(TopicPlace(UUID(bytes=topic), partition) for topic, partition in places)


_encode = msgspec.msgpack.Encoder().encode
decode_entry = msgspec.msgpack.Decoder(DirectedEntry).decode
decode_member = msgspec.msgpack.Decoder(DirectedMemberEntry).decode


def scope_of(group: str) -> str:
    """Where the state of a directed group is."""
    return f"{INDEX_SCOPE}/{group}"


def put_entry(group: str, entry: DirectedEntry) -> Mutation:
    """Store what is not of a member."""
    return Mutation(scope_of(group), ENTRY_KEY, _encode(entry))


def put_member(group: str, member_id: str, entry: DirectedMemberEntry | None) -> Mutation:
    """Store a member, or that it is gone."""
    return Mutation(scope_of(group), _MEMBER_PREFIX + member_id.encode(), None if entry is None else _encode(entry))


def is_member_key(key: bytes) -> bool:
    """Whether a key of the scope is a member's."""
    return key.startswith(_MEMBER_PREFIX)
