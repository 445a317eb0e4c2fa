"""How transactions are written: the state of the scope `transactions`.

    t | transactional id                               -> TransactionEntry
    l | log | transactional id                         -> nothing: the log takes part
    g | group | transactional id                       -> nothing: offsets of the group may follow
    o | topic | partition | group | transactional id   -> CommittedOffset, which counts once the transaction commits

What takes part has keys of its own, because a transaction grows by one log at a time, and a producer may write to thousands.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from mainstem.coordination.groups.group_offsets import CommittedOffset, TopicPlace
from mainstem.storage.contract import Mutation

SCOPE = "transactions"
NO_EPOCH = -1
NO_PRODUCER = -1

_ENTRY, _LOG, _GROUP, _OFFSET = b"t", b"l", b"g", b"o"
_LOG_KEY = struct.Struct(">cQ")
_GROUP_KEY = struct.Struct(">cH")
_OFFSET_KEY = struct.Struct(">c16siH")


class TransactionState(enum.Enum):
    """Where a transactional id stands. There is nothing between open and ended: an end is one commit."""

    EMPTY = "empty"
    """Its producer has begun, and nothing else."""
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Identity(NamedTuple):
    """A producer, and which of its incarnations."""

    producer: int
    epoch: int


class TransactionEntry(msgspec.Struct, frozen=True, array_like=True):
    """A transactional id as it is stored."""

    producer: int
    epoch: int
    last_producer: int
    """Who it was before, if that one became this: a request that is repeated for a lost answer is known by it (KIP-360)."""
    last_epoch: int
    timeout_ms: int
    state: TransactionState
    started_ms: int
    """When the open transaction began; -1 without one."""
    changed_ms: int

    @property
    def identity(self) -> Identity:
        """Whose requests are heard."""
        return Identity(self.producer, self.epoch)

    @property
    def last_identity(self) -> Identity | None:
        """Who may have missed that it became another, if anybody."""
        return None if self.last_epoch == NO_EPOCH else Identity(self.last_producer, self.last_epoch)


class GroupPlace(NamedTuple):
    """What an offset belongs to."""

    group: str
    place: TopicPlace


class EntryKey(NamedTuple):
    """The entry of a transactional id."""

    name: str


class LogKey(NamedTuple):
    """A log that takes part."""

    name: str
    log: int


class GroupKey(NamedTuple):
    """A group that takes part."""

    name: str
    group: str


class OffsetKey(NamedTuple):
    """An offset that waits for the end."""

    name: str
    place: GroupPlace


Key: TypeAlias = EntryKey | LogKey | GroupKey | OffsetKey

_encode = msgspec.msgpack.Encoder().encode
decode_entry = msgspec.msgpack.Decoder(TransactionEntry).decode
decode_offset = msgspec.msgpack.Decoder(CommittedOffset).decode


def put_entry(name: str, entry: TransactionEntry | None) -> Mutation:
    """The entry, or its end."""
    return Mutation(SCOPE, _ENTRY + name.encode(), None if entry is None else _encode(entry))


def put_log(name: str, log: int, *, gone: bool = False) -> Mutation:
    """A log takes part, or no longer."""
    return Mutation(SCOPE, _LOG_KEY.pack(_LOG, log) + name.encode(), None if gone else b"")


def put_group(name: str, group: str, *, gone: bool = False) -> Mutation:
    """A group takes part, or no longer."""
    text = group.encode()
    return Mutation(SCOPE, _GROUP_KEY.pack(_GROUP, len(text)) + text + name.encode(), None if gone else b"")


def put_offset(name: str, place: GroupPlace, offset: CommittedOffset | None) -> Mutation:
    """An offset waits, or no longer."""
    group, (topic, partition) = place
    text = group.encode()
    key = _OFFSET_KEY.pack(_OFFSET, topic.bytes, partition, len(text)) + text + name.encode()
    return Mutation(SCOPE, key, None if offset is None else _encode(offset))


def decode_key(key: bytes) -> Key:
    """What a key of the scope stands for."""
    kind = key[:1]
    if kind == _ENTRY:
        return EntryKey(key[1:].decode())
    if kind == _LOG:
        return LogKey(key[_LOG_KEY.size :].decode(), _LOG_KEY.unpack_from(key)[1])
    if kind == _GROUP:
        _, size = _GROUP_KEY.unpack_from(key)
        group, name = _split(key, _GROUP_KEY.size, size)
        return GroupKey(name, group)
    assert kind == _OFFSET, f"no key of the scope {SCOPE}: {key!r}"
    _, topic, partition, size = _OFFSET_KEY.unpack_from(key)
    group, name = _split(key, _OFFSET_KEY.size, size)
    return OffsetKey(name, GroupPlace(group, TopicPlace(UUID(bytes=topic), partition)))


def _split(key: bytes, at: int, size: int) -> tuple[str, str]:
    return key[at : at + size].decode(), key[at + size :].decode()
