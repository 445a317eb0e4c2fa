"""Connections as they are asked for and shown."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

import msgspec

from mainstem.model.endpoints import Endpoints
from mainstem.model.peer import Peer
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, Limit

NOBODY = Peer()


class Connected(Protocol):
    """A connection that serves a client."""

    @property
    def id(self) -> str:
        """LISTENER-NUMBER."""

    @property
    def protocol(self) -> str:
        """The name of its listener."""

    @property
    def endpoints(self) -> Endpoints:
        """Where its two ends are."""

    @property
    def peer(self) -> Peer | None:
        """Who the client is."""

    @property
    def opened_ms(self) -> int:
        """Since when."""

    @property
    def received_bytes(self) -> int:
        """From the client."""

    @property
    def sent_bytes(self) -> int:
        """To the client."""

    @property
    def received_rate(self) -> float:
        """Bytes in a second."""

    @property
    def sent_rate(self) -> float:
        """Bytes in a second."""


class ConnectionPath(msgspec.Struct, frozen=True):
    """Which connection."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class ConnectionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which connections, and in which order."""

    search: Annotated[str, msgspec.Meta(description="Part of id, client, library, user or address.")] = ""
    protocol: str = ""
    sort: Literal["since", "client", "user", "address", "received", "sent"] = "since"
    after: Annotated[int, msgspec.Meta(ge=0, le=1_000_000, description="Leave out this many.")] = 0
    limit: Limit = PAGE_ITEMS_DEFAULT


class ConnectionDocument(msgspec.Struct, frozen=True):
    """One connection."""

    id: str
    protocol: str
    client: str
    """What the client calls itself."""
    library: str
    version: str
    """Of the library."""
    user: str
    namespace: str
    address: str
    """Where it comes from."""
    encrypted: bool
    """Whether it came by TLS."""
    since_ms: int
    received_bytes: int
    sent_bytes: int
    received_bytes_per_second: float
    sent_bytes_per_second: float


class ConnectionPage(msgspec.Struct, frozen=True):
    """Some of the connections."""

    connections: list[ConnectionDocument]
    next: str | None


def describe_connection(connection: Connected) -> ConnectionDocument:
    """One connection, as it is now."""
    peer = connection.peer or NOBODY
    return ConnectionDocument(
        id=connection.id,
        protocol=connection.protocol,
        client=peer.name,
        library=peer.library,
        version=peer.version,
        user=peer.user,
        namespace=peer.namespace,
        address=connection.endpoints.peer,
        encrypted=connection.endpoints.is_encrypted,
        since_ms=connection.opened_ms,
        received_bytes=connection.received_bytes,
        sent_bytes=connection.sent_bytes,
        received_bytes_per_second=round(connection.received_rate, 1),
        sent_bytes_per_second=round(connection.sent_rate, 1),
    )


def fits(document: ConnectionDocument, query: ConnectionsQuery) -> bool:
    """Whether it is asked for."""
    if query.protocol not in ("", document.protocol):
        return False
    texts = (document.id, document.client, document.library, document.user, document.address)
    return not query.search or any(query.search in text for text in texts)


def place(document: ConnectionDocument, query: ConnectionsQuery) -> tuple[float | str, int, str]:
    """Where it stands in the order that is asked for."""
    first: float | str = 0
    if query.sort == "received":
        first = -document.received_bytes_per_second
    elif query.sort == "sent":
        first = -document.sent_bytes_per_second
    elif query.sort != "since":
        first = str(getattr(document, query.sort))
    return first, document.since_ms, document.id
