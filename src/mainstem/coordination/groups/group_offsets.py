"""How far a group has come: its committed offsets.

State of the scope `groups/NAME`. Offsets are kept by the id of their topic: another topic of the same name begins
without any.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Mapping
from typing import NamedTuple
from uuid import UUID

import msgspec

from mainstem.coordination.groups.classic_members import GroupEntry
from mainstem.storage.contract import Mutation

INDEX_SCOPE = "groups"
"""Which groups there are: a key for each."""
ENTRY_KEY = b"group"
_OFFSET_PREFIX = b"offset/"
_PLACE = struct.Struct(">16si")


class TopicPlace(NamedTuple):
    """A partition of a topic, whatever its name."""

    topic: UUID
    partition: int


class CommittedOffset(msgspec.Struct, frozen=True, array_like=True):
    """Where to go on, and what the committer wanted to remember with it."""

    offset: int
    leader_epoch: int
    note: str
    committed_ms: int


_encode = msgspec.msgpack.Encoder().encode
_decode_offset = msgspec.msgpack.Decoder(CommittedOffset).decode
_decode_entry = msgspec.msgpack.Decoder(GroupEntry).decode


def scope_of(group: str) -> str:
    """Where the state of a group is."""
    return f"{INDEX_SCOPE}/{group}"


class GroupRecord:
    """What is stored of one group. Only `replay` changes it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scope = scope_of(name)
        self.offsets: dict[TopicPlace, CommittedOffset] = {}
        self.entry: GroupEntry | None = None
        self.is_indexed = False

    def decide_index(self) -> list[Mutation]:
        """The first mutation of a group comes with its name."""
        return [] if self.is_indexed else [Mutation(INDEX_SCOPE, self.name.encode(), b"")]

    def decide_entry(self, entry: GroupEntry) -> list[Mutation]:
        """Another generation."""
        return [*self.decide_index(), Mutation(self.scope, ENTRY_KEY, _encode(entry))]

    def decide_commit(self, offsets: Mapping[TopicPlace, CommittedOffset]) -> list[Mutation]:
        """Offsets, the last ones count."""
        changes = [Mutation(self.scope, _key(place), _encode(offset)) for place, offset in offsets.items()]
        return self.decide_index() + changes

    def decide_forget(self, places: Container[TopicPlace]) -> list[Mutation]:
        """Drop the offsets of some places."""
        return [Mutation(self.scope, _key(place), None) for place in self.offsets if place in places]

    def decide_delete(self) -> list[Mutation]:
        """The group goes, with all that is known of it."""
        changes = [Mutation(self.scope, _key(place), None) for place in self.offsets]
        if self.entry is not None:
            changes.append(Mutation(self.scope, ENTRY_KEY, None))
        if self.is_indexed:
            changes.append(Mutation(INDEX_SCOPE, self.name.encode(), None))
        return changes

    def expired(self, topics: Container[UUID], retention_ms: int, now_ms: int) -> set[TopicPlace]:
        """Places of topics that are gone, and those of an empty group that nobody has touched for long."""
        emptied_ms = self.entry.changed_ms if self.entry is not None else 0
        return {
            place
            for place, offset in self.offsets.items()
            if place.topic not in topics or max(offset.committed_ms, emptied_ms) + retention_ms <= now_ms
        }

    def replay(self, mutation: Mutation) -> None:
        """Apply one mutation, of the group's scope or of the index."""
        if mutation.scope == INDEX_SCOPE:
            self.is_indexed = mutation.value is not None
        elif mutation.key == ENTRY_KEY:
            self.entry = None if mutation.value is None else _decode_entry(mutation.value)
        elif mutation.key.startswith(_OFFSET_PREFIX):
            topic, partition = _PLACE.unpack_from(mutation.key, len(_OFFSET_PREFIX))
            place = TopicPlace(UUID(bytes=topic), partition)
            if mutation.value is None:
                self.offsets.pop(place, None)
            else:
                self.offsets[place] = _decode_offset(mutation.value)


def _key(place: TopicPlace) -> bytes:
    return _OFFSET_PREFIX + _PLACE.pack(place.topic.bytes, place.partition)
