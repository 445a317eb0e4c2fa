"""Sessions of devices as they are stored: all in one scope, so that a hundred thousand of them load at once.

session/NAMESPACE 0 CLIENT   how long it lasts, and its subscriptions
received/SESSION ID          a message of QoS 2 that was taken, and whose identifier is not free yet
released/SESSION ID          a message of QoS 2 that the client has, and whose identifier is not free yet
will/NAMESPACE 0 CLIENT      what is published if its client vanishes
rules/NAMESPACE              which topics and keys messages get
position/LOG                 below this offset all records were given to subscribers
"""

from __future__ import annotations

import struct

import msgspec

from mainstem.coordination.devices.topic_rules import TopicRule
from mainstem.storage.contract import Mutation

SCOPE = "devices"
SESSION, RECEIVED, RELEASED, WILL, RULES, POSITION = (
    b"session/", b"received/", b"released/", b"will/", b"rules/", b"position/",
)  # fmt: skip
_ID = struct.Struct(">QH")
_ONE = struct.Struct(">Q")
_ZERO = b"\xff"


class SubscriptionEntry(msgspec.Struct, frozen=True, array_like=True):
    """A subscription of a session."""

    filter: str
    """As the client wrote it, `$share` included."""
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    """0: none."""


class SessionEntry(msgspec.Struct, frozen=True, array_like=True):
    """A session that outlives its connection."""

    namespace: str
    client_id: str
    number: int
    expiry_s: int
    """How long it is kept without a connection; `NEVER`: for ever."""
    ended_ms: int
    """When its connection ended; 0: it has one."""
    subscriptions: tuple[SubscriptionEntry, ...] = ()
    has_queue: bool = False
    user: str = ""


class WillEntry(msgspec.Struct, frozen=True, array_like=True):
    """What is published if a client vanishes."""

    namespace: str
    client_id: str
    topic: str
    payload: bytes
    qos: int
    retain: bool
    headers: tuple[tuple[str, bytes], ...]
    expiry_s: int
    """How long the message lives; -1: for ever."""
    delay_s: int
    due_ms: int
    """When it is published, since its client has vanished; 0: the client is there."""


NEVER = 0xFFFFFFFF
_encode = msgspec.msgpack.Encoder().encode
decode_session = msgspec.msgpack.Decoder(SessionEntry).decode
decode_will = msgspec.msgpack.Decoder(WillEntry).decode
decode_rules = msgspec.msgpack.Decoder(tuple[TopicRule, ...]).decode
_decode_number = msgspec.msgpack.Decoder(int).decode


def _join(namespace: str, name: str) -> bytes:
    return namespace.encode().replace(b"\0", _ZERO) + b"\0" + name.encode()


def put_session(entry: SessionEntry) -> Mutation:
    """Store it."""
    return Mutation(SCOPE, SESSION + _join(entry.namespace, entry.client_id), _encode(entry))


def forget_session(namespace: str, client_id: str) -> Mutation:
    """It has ended."""
    return Mutation(SCOPE, SESSION + _join(namespace, client_id), None)


def put_will(entry: WillEntry) -> Mutation:
    """Store it."""
    return Mutation(SCOPE, WILL + _join(entry.namespace, entry.client_id), _encode(entry))


def forget_will(namespace: str, client_id: str) -> Mutation:
    """It was published, or is not wanted any more."""
    return Mutation(SCOPE, WILL + _join(namespace, client_id), None)


def put_identifier(prefix: bytes, session: int, identifier: int, *, is_there: bool) -> Mutation:
    """Store that an identifier is not free, or is."""
    return Mutation(SCOPE, prefix + _ID.pack(session, identifier), b"" if is_there else None)


def decode_identifier(key: bytes, prefix: bytes) -> tuple[int, int]:
    """Number of the session, and identifier."""
    session, identifier = _ID.unpack_from(key, len(prefix))
    return session, identifier


def put_rules(namespace: str, rules: tuple[TopicRule, ...] | None) -> Mutation:
    """Store them; None: the default ones."""
    return Mutation(SCOPE, RULES + namespace.encode(), None if rules is None else _encode(rules))


def put_position(log: int, offset: int) -> Mutation:
    """Store how far a log was given to subscribers."""
    return Mutation(SCOPE, POSITION + _ONE.pack(log), _encode(offset))


def decode_position(key: bytes, value: bytes) -> tuple[int, int]:
    """Log and offset."""
    return int(_ONE.unpack_from(key, len(POSITION))[0]), _decode_number(value)
