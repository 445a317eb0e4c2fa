"""Queues as they are stored: all in one scope, so that a hundred thousand of them load at once.

    queue/NAMESPACE 0 NAME     what it promises, and its logs
    log/, page/, rest/, tried/ its logs, as of every subscription (`coordination/subscriptions/entries.py`)
    given/LOG                  below this offset messages may have been given out
    paused/NAMESPACE 0 NAME    nothing is given out
    rewound/LOG                until this offset is settled, retention takes nothing

What is stored of the messages themselves never grows with the backlog.
"""

from __future__ import annotations

import struct

import msgspec

from mainstem.coordination.queues.properties import QueueProperties
from mainstem.storage.contract import Mutation

SCOPE = "queues"
QUEUE_PREFIX, GIVEN_PREFIX, REWOUND_PREFIX, PAUSED_PREFIX = b"queue/", b"given/", b"rewound/", b"paused/"
_ZERO = b"\xff"
_ONE = struct.Struct(">Q")


class QueueEntry(msgspec.Struct, frozen=True, array_like=True):
    """A queue."""

    namespace: str
    name: str
    properties: QueueProperties
    logs: tuple[int, ...]
    topic_name: str | None
    is_borrowed: bool
    spare_log: int = 0
    """The number of a log that is to be made when there is need for it."""


_encode = msgspec.msgpack.Encoder().encode
decode_queue = msgspec.msgpack.Decoder(QueueEntry).decode
_decode_number = msgspec.msgpack.Decoder(int).decode


def put_queue(entry: QueueEntry) -> Mutation:
    """Store a queue."""
    return Mutation(SCOPE, queue_key(entry.namespace, entry.name), _encode(entry))


def forget_queue(namespace: str, name: str) -> Mutation:
    """There is no such queue any more."""
    return Mutation(SCOPE, queue_key(namespace, name), None)


def queue_key(namespace: str, name: str) -> bytes:
    """Where a queue is stored."""
    return QUEUE_PREFIX + _join(namespace, name)


def _join(namespace: str, name: str) -> bytes:
    """Both, so that they can be told apart: a zero in the namespace is written as a byte that UTF-8 does not have."""
    return namespace.encode().replace(b"\0", _ZERO) + b"\0" + name.encode()


def put_given(scope: str, log: int, offset: int | None) -> Mutation:
    """Store how far messages were given out."""
    return Mutation(scope, GIVEN_PREFIX + _ONE.pack(log), None if offset is None else _encode(offset))


def put_rewound(log: int, offset: int | None) -> Mutation:
    """Store that retention is held off."""
    return Mutation(SCOPE, REWOUND_PREFIX + _ONE.pack(log), None if offset is None else _encode(offset))


def put_paused(namespace: str, name: str, *, is_paused: bool) -> Mutation:
    """Store whether a queue gives nothing out."""
    return Mutation(SCOPE, PAUSED_PREFIX + _join(namespace, name), b"" if is_paused else None)


def decode_paused(key: bytes) -> tuple[str, str]:
    """Namespace and name of a queue that gives nothing out."""
    namespace, _, name = key[len(PAUSED_PREFIX) :].partition(b"\0")
    return namespace.replace(_ZERO, b"\0").decode(), name.decode()


def decode_log(key: bytes, prefix: bytes) -> int:
    """The log that a key is about."""
    return int(_ONE.unpack_from(key, len(prefix))[0])


def decode_number(value: bytes) -> int:
    """A plain number."""
    return _decode_number(value)
