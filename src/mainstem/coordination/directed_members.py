"""Members of a directed group: what they say, what they are told, and how both are stored."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

import msgspec

from mainstem.coordination.group_offsets import TopicPlace
from mainstem.storage.contract import Mutation

INDEX_SCOPE = "directed"
"""Which directed groups there are: a key for each."""
ENTRY_KEY = b"group"
_MEMBER_PREFIX = b"member/"

JOINS, LEAVES, PAUSES = 0, -1, -2
"""Epochs that stand for something else: a member comes, goes, or, being static, goes for a while."""


class Beat(NamedTuple):
    """What a member says. None: as before."""

    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    rebalance_timeout_ms: int
    topics: frozenset[str] | None
    assignor: str | None
    owned: frozenset[TopicPlace] | None


class Told(NamedTuple):
    """What a member is told."""

    member_id: str
    epoch: int
    share: frozenset[TopicPlace] | None
    """Its whole share; None when that has not changed."""


Place = tuple[bytes, int]


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
    share: tuple[Place, ...]
    revoking: tuple[Place, ...]


class DirectedEntry(msgspec.Struct, frozen=True, array_like=True):
    """A directed group as it is stored, without its members."""

    epoch: int
    assignor: str
    target: dict[str, tuple[Place, ...]]
    shapes: dict[str, tuple[bytes, int]]


class DirectedMember:
    """A member that is believed to live until its deadline."""

    __slots__ = (
        "assignor",
        "client_id",
        "deadline_ms",
        "epoch",
        "id",
        "instance_id",
        "previous_epoch",
        "rack_id",
        "rebalance_timeout_ms",
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
        self.rebalance_timeout_ms = 0
        self.topics: frozenset[str] = frozenset()
        self.assignor: str | None = None
        self.epoch = 0
        self.previous_epoch = 0
        self.share: frozenset[TopicPlace] = frozenset()
        """What it may work on."""
        self.revoking: frozenset[TopicPlace] = frozenset()
        """What it is to let go of, and may still hold."""
        self.deadline_ms = 0
        self.revoke_by_ms: int | None = None

    def take(self, beat: Beat) -> bool:
        """What it says counts from now on; answers whether that concerns the assignment."""
        before = (self.topics, self.assignor)
        if beat.topics is not None:
            self.topics = beat.topics
        if beat.assignor is not None:
            self.assignor = beat.assignor
        if beat.rack_id is not None:
            self.rack_id = beat.rack_id
        if beat.rebalance_timeout_ms >= 0:
            self.rebalance_timeout_ms = beat.rebalance_timeout_ms
        self.client_id = beat.client_id
        return before != (self.topics, self.assignor)

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
        )

    @classmethod
    def restored(cls, entry: DirectedMemberEntry) -> DirectedMember:
        """From storage."""
        member = cls(entry.id, entry.instance_id)
        member.rack_id = entry.rack_id
        member.client_id = entry.client_id
        member.rebalance_timeout_ms = entry.rebalance_timeout_ms
        member.topics = frozenset(entry.topics)
        member.assignor = entry.assignor
        member.epoch, member.previous_epoch = entry.epoch, entry.previous_epoch
        member.share, member.revoking = unpack_places(entry.share), unpack_places(entry.revoking)
        return member


def pack_places(places: frozenset[TopicPlace]) -> tuple[Place, ...]:
    """For storage."""
    return tuple(sorted((place.topic.bytes, place.partition) for place in places))


def unpack_places(places: tuple[Place, ...]) -> frozenset[TopicPlace]:
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
