"""Where a connection begins whose first bytes decide what it is.

A proxy in front says by them who its client is; and where a listener takes TLS and clear text on one port, the first byte of a
TLS client is one with which no request of the protocol begins.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from typing import Protocol, cast

from mainstem.model.endpoints import ClientCertificate, Endpoints
from mainstem.transport.carrier import endpoints_of
from mainstem.transport.connection import Connection
from mainstem.transport.proxy_header import HEADER_BYTES_MAX, ProxyHeader, read_header
from mainstem.transport.tls_layer import TlsLayer, TlsOwner

TLS_HANDSHAKE = 0x16
"""The first byte of a TLS client's first record (RFC 8446, 5.1)."""


class Encryption(enum.Enum):
    """What a listener takes."""

    NEVER = "clear text"
    ALWAYS = "TLS"
    EITHER = "either, by the first byte"


class EntranceOwner(TlsOwner, Protocol):
    """What an entrance needs of its listener."""

    @property
    def encryption(self) -> Encryption:
        """What it takes."""

    def is_proxy(self, host: str) -> bool:
        """Whether a header is expected from this address, and believed."""

    def identify_name(self, common_name: str) -> ClientCertificate:
        """Who that is, by the one name that a proxy tells of a certificate."""


class Entrance(asyncio.BufferedProtocol):
    """Reads what comes before TLS and protocol, then leaves the socket to them."""

    def __init__(
        self, owner: EntranceOwner, connect: Callable[[], Connection], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._owner = owner
        self._connect = connect
        self._loop = loop
        self._endpoints: Endpoints
        self._expects_header = False
        self._received = b""
        self._space = bytearray()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first bytes."""
        self._transport = cast(asyncio.Transport, transport)
        self._endpoints = endpoints_of(transport, self._owner.name)
        if not self._owner.begin_handshake(self):
            self._transport.abort()
            return
        self._expects_header = self._owner.is_proxy(self._endpoints.peer_host)
        if not self._expects_header and self._owner.encryption is not Encryption.EITHER:
            self._hand_over(is_tls=self._owner.encryption is Encryption.ALWAYS)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes are to be put."""
        self._space = bytearray(HEADER_BYTES_MAX)
        return memoryview(self._space)

    def buffer_updated(self, nbytes: int) -> None:
        """Look whether they are enough."""
        self._received += memoryview(self._space)[:nbytes]
        if self._expects_header:
            try:
                header = read_header(self._received)
                if header is None:
                    return
                self._believe(header)
            except ValueError as error:
                self.give_up(str(error))
                return
            self._received = self._received[header.size :]
            self._expects_header = False
        encryption = self._owner.encryption
        if encryption is not Encryption.EITHER:
            self._hand_over(is_tls=encryption is Encryption.ALWAYS)
        elif self._received:
            self._hand_over(is_tls=self._received[0] == TLS_HANDSHAKE)

    def _believe(self, header: ProxyHeader) -> None:
        if header.is_local:
            return
        certificate = self._owner.identify_name(header.common_name) if header.common_name else None
        self._endpoints = Endpoints(*header.source, *header.target, self._owner.name, header.is_encrypted, certificate)

    def _hand_over(self, *, is_tls: bool) -> None:
        owner, transport, connection = self._owner, self._transport, self._connect()
        received = memoryview(self._received)
        owner.end_handshake(self)
        if is_tls:
            layer = TlsLayer(owner, connection, self._loop, self._endpoints)
            transport.set_protocol(layer)
            layer.connection_made(transport)
            if received:
                layer.feed(received)
            return
        transport.set_protocol(connection)
        connection.begin(transport, self._endpoints)
        if received:
            connection.get_buffer(-1)[: len(received)] = received
            connection.buffer_updated(len(received))

    def eof_received(self) -> bool:
        """Too early: nothing was said."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over before it began."""
        self._owner.end_handshake(self)

    def give_up(self, reason: str) -> None:
        """Close, and say why to the operator."""
        self._owner.refuse_handshake(self._endpoints.peer, reason)
        self._transport.abort()
