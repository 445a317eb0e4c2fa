"""A binding: from an exchange to a queue or to another exchange."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

_canonical = msgspec.msgpack.Encoder(order="deterministic").encode


class DestinationKind(enum.Enum):
    """What a binding leads to."""

    QUEUE = "queue"
    EXCHANGE = "exchange"


class Destination(NamedTuple):
    """Where a binding leads."""

    kind: DestinationKind
    name: str


class Binding(msgspec.Struct, frozen=True, eq=False):
    """One binding. Two of them are the same when all but `serial` and `durable` is."""

    source: str
    destination: Destination
    routing_key: str
    arguments: Mapping[str, object]
    durable: bool
    """Whether it outlives a restart: both of its ends do."""
    serial: int
    """Counts up in a namespace: the order in which bindings were made, also after a restart."""

    @property
    def identity(self) -> bytes:
        """Equal for the same binding."""
        return binding_identity(self.source, self.destination, self.routing_key, self.arguments)

    @property
    def arguments_digest(self) -> str:
        """Short text that tells arguments apart; empty without any."""
        return _digest(self.arguments).hex()[:20] if self.arguments else ""


def binding_identity(source: str, destination: Destination, routing_key: str, arguments: Mapping[str, object]) -> bytes:
    """What makes a binding the one that it is. Arguments may be long, so their digest stands for them."""
    digest = _digest(arguments) if arguments else b""
    return _canonical((source, destination.kind.value, destination.name, routing_key, digest))


def _digest(arguments: Mapping[str, object]) -> bytes:
    return hashlib.sha256(_canonical(arguments)).digest()
