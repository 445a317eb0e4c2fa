"""How protocols of queues word what administrators see and declare: a registry by origin.

Adapters do not know each other; each protocol adds its dialect when the broker starts, whether it listens or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from mainstem.broker.envelopes import Address, EnvelopeRegistry
from mainstem.broker.queues import Message, Queue, QueueProperties
from mainstem.model.endpoints import Endpoints
from mainstem.model.errors import PeerError


class NotInDialect(PeerError):
    """It cannot be said like this, for the reason that the protocol gives."""


class Sealed(msgspec.Struct, frozen=True):
    """A message as records hold it."""

    headers: bytes
    key: bytes | None
    ttl_ms: int
    priority: int
    routing_keys: tuple[str, ...]
    plain_headers: Mapping[str, object]
    """As routes look at them."""


class Opened(msgspec.Struct, frozen=True):
    """A message as a client of that protocol sees it."""

    address: Address
    properties: Mapping[str, Any]


class ConsumerFacts(msgspec.Struct, frozen=True):
    """A consumer of a channel."""

    tag: str
    queue: Queue
    prefetch: int
    needs_acknowledgement: bool
    is_exclusive: bool
    is_active: bool
    timeout_ms: int
    """How long a delivery may stay unacknowledged."""
    arguments: Mapping[str, Any]


class ChannelFacts(msgspec.Struct, frozen=True):
    """A channel of a connection."""

    number: int
    prefetch: int
    prefetch_all: int
    unacknowledged: int
    unconfirmed: int
    is_confirming: bool
    is_transactional: bool
    consumers: Sequence[ConsumerFacts]


class ConnectionFacts(msgspec.Struct, frozen=True):
    """A client."""

    name: str
    endpoints: Endpoints
    user: str
    mechanism: str
    """By which it said who it is."""
    namespace: str
    connected_ms: int
    channel_max: int
    frame_bytes_max: int
    heartbeat_s: int
    client_properties: Mapping[str, Any]
    channels: Sequence[ChannelFacts]
    close: Callable[[str], None]
    """End it, for this reason."""


class Dialect(Protocol):
    """What management and other protocols of queues ask. All but `connections` raise NotInDialect."""

    def queue_properties(
        self,
        name: str,
        arguments: Mapping[str, object],
        *,
        durable: bool,
        auto_delete: bool,
        exclusive: bool = False,
        hidden: bool = False,
    ) -> QueueProperties:
        """What a declaration with these arguments asks for."""

    def queue_arguments(self, properties: QueueProperties) -> Mapping[str, Any]:
        """Arguments as they were declared."""

    def check_same(self, name: str, present: QueueProperties, wanted: QueueProperties) -> None:
        """Whether a queue that is there may be declared like this."""

    def seal(self, address: Address, properties: Mapping[str, Any]) -> Sealed:
        """A message to be published, under the address's one key."""

    def open(self, message: Message) -> Opened:
        """A message of a queue."""

    def connections(self) -> list[ConnectionFacts]:
        """Who is connected."""


class Dialects:
    """By origin: the name of the protocol."""

    def __init__(self, envelopes: EnvelopeRegistry) -> None:
        self._envelopes = envelopes
        self._by_origin: dict[str, Dialect] = {}

    def add(self, origin: str, dialect: Dialect) -> None:
        """A protocol says how it words things."""
        self._by_origin[origin] = dialect

    def get(self, origin: str) -> Dialect | None:
        """Of this protocol; None: nobody has added it."""
        return self._by_origin.get(origin)

    def of(self, message: Message) -> Dialect | None:
        """Of the protocol that published a message; None: it is a record of a topic."""
        origin = self._envelopes.origin_of(message)
        return None if origin is None else self._by_origin.get(origin)
