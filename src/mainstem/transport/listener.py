"""One listening socket and the connections that came through it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import ipaddress
import itertools
import logging
import socket
import ssl
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import msgspec

from mainstem.transport.address import Address
from mainstem.transport.client_identity import UserRules, identify, identify_name
from mainstem.transport.connection import Connection, Traffic
from mainstem.transport.entrance import Encryption, Entrance
from mainstem.transport.handshakes import Handshakes
from mainstem.transport.tls_credentials import HANDSHAKE_TIMEOUT_MS, HANDSHAKES_MAX, Credentials, Terms
from mainstem.transport.tls_layer import CIPHERTEXT_CHUNK_BYTES, Newcomer, TlsLayer
from mainstem.transport.turns import Turns

if TYPE_CHECKING:
    from mainstem.model.endpoints import ClientCertificate
    from mainstem.transport.receive_buffer import ChunkPool
    from mainstem.transport.session import OpenSession

log = logging.getLogger(__name__)

BACKLOG = 1024
BEAT_S_MAX = 1.0
LINGER_BEATS = 2
"""How long a peer that was told everything may take to close its half."""
END_BEATS = 5
"""How long a connection that was told to end may take to finish what is in flight."""

_numbers = itertools.count(1)


class ListenerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one listener may hold."""

    connections_max: int
    idle_timeout_ms: int
    write_buffer_bytes_max: int


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Security(NamedTuple):
    """What stands between a listener's socket and its sessions; nothing, unless it is said."""

    encryption: Encryption = Encryption.NEVER
    credentials: Credentials | None = None
    terms: Terms = Terms()
    proxies: tuple[Network, ...] = ()
    """Whose PROXY headers are expected, and believed."""
    handshakes_max: int = HANDSHAKES_MAX
    handshake_timeout_ms: int = HANDSHAKE_TIMEOUT_MS


PLAIN = Security()


class PortTaken(Exception):
    """Somebody else listens there."""

    def __init__(self, name: str, address: Address) -> None:
        super().__init__(f"{name}={address}")
        self.name = name
        self.address = address


class Listener:
    """Accepts up to its limit, reclaims what is idle, drains in the end."""

    def __init__(
        self,
        name: str,
        address: Address,
        open_session: OpenSession,
        limits: ListenerLimits,
        chunks: ChunkPool,
        turns: Turns | None = None,
        security: Security = PLAIN,
        protocol: str = "",
    ) -> None:
        self.name = name
        self.protocol = protocol or name
        """What is spoken: the name without what it says of TLS."""
        self.security = security
        self.ciphertext = bytearray(CIPHERTEXT_CHUNK_BYTES if security.encryption is not Encryption.NEVER else 0)
        self.handshakes = Handshakes(security.handshakes_max, security.handshake_timeout_ms)
        self.address = address
        self.open_session = open_session
        self.chunks = chunks
        self.turns = turns or Turns()
        self.traffic = Traffic()
        self.write_buffer_bytes_max = limits.write_buffer_bytes_max
        self.beat = 0
        self._limits = limits
        idle_s = limits.idle_timeout_ms / 1000
        self._beat_s = min(BEAT_S_MAX, idle_s / 4)
        self._idle_beats = round(idle_s / self._beat_s)
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._heart: asyncio.TimerHandle | None = None
        self._connections: set[Connection] = set()
        self._all_gone = asyncio.Event()
        self._was_full = False
        self._draining = False

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    def open_connections(self) -> list[Connection]:
        """Those that serve a client, the oldest first."""
        return sorted((one for one in self._connections if one.is_open), key=lambda one: int(one.id.rpartition("-")[2]))

    def end(self, connection: Connection) -> None:
        """Have one connection finish what is in flight, and close it."""
        connection.end(END_BEATS)

    def bind(self) -> None:
        """Take the port without listening yet; a port of 0 becomes the one that was taken. Raises PortTaken, OSError."""
        family, kind, protocol, _, target = socket.getaddrinfo(
            self.address.host, self.address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            # Without it a restarted broker would wait a minute for the connections of its predecessor.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # A peer that vanished without a word is noticed by the kernel. Accepted sockets inherit it.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.setblocking(False)
            bound.bind(target)
        except OSError as error:
            bound.close()
            self._raise(error)
        self._socket = bound
        self.address = Address(self.address.host, bound.getsockname()[1])

    def share(self) -> socket.socket:
        """The port that was taken, for somebody else too: it stays taken until both let it go."""
        assert self._socket is not None, "not bound"
        return self._socket.dup()

    def adopt(self, bound: socket.socket) -> None:
        """Use a port that was taken before."""
        self._socket = bound
        self.address = Address(self.address.host, bound.getsockname()[1])

    async def start(self) -> None:
        """Listen and accept. Raises PortTaken, OSError."""
        assert self._socket is not None, "not bound"
        loop = asyncio.get_running_loop()
        try:
            # Here and not by the event loop, which would report a port that another one bound and we bound too, late.
            self._socket.listen(BACKLOG)
        except OSError as error:
            self._raise(error)
        self._server = await loop.create_server(
            functools.partial(self._receive, loop), sock=self._socket, backlog=BACKLOG
        )
        self._heart = loop.call_later(self._beat_s, self._beat, loop)

    def _receive(self, loop: asyncio.AbstractEventLoop) -> asyncio.BaseProtocol:
        """What stands behind a new socket."""
        connect = functools.partial(Connection, self, loop)
        if self.security.proxies or self.encryption is Encryption.EITHER:
            return Entrance(self, connect, loop)
        return TlsLayer(self, connect(), loop) if self.encryption is Encryption.ALWAYS else connect()

    def _raise(self, error: OSError) -> NoReturn:
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(self.name, self.address) from None
        raise error

    def admit(self, connection: Connection) -> bool:
        """Count one more connection, or refuse it."""
        if self._draining:
            return False  # Accepted by the kernel just before the end.
        if self._refuses("" if len(self._connections) < self._limits.connections_max else "connections_max"):
            return False
        self.traffic.accepted += 1
        connection.id = f"{self.protocol}-{next(_numbers)}"
        self._connections.add(connection)
        self._all_gone.clear()
        return True

    def _refuses(self, limit: str) -> bool:
        """Count a connection that is over a limit, and say so."""
        if limit:
            self.traffic.refused += 1
            if not self._was_full:  # One line per episode, not per attempt.
                log.warning("%s=%s refuses connections: %s reached", self.name, self.address, limit)
        self._was_full = bool(limit)
        return self._was_full

    # What newcomers ask ----------------------------------------------------------------------------------------------

    @property
    def encryption(self) -> Encryption:
        """What it takes."""
        return self.security.encryption

    def begin_handshake(self, newcomer: Newcomer) -> bool:
        """Count one more that serves no client yet, or refuse it."""
        if self._draining:
            return False
        if len(self._connections) + len(self.handshakes) >= self._limits.connections_max:
            return not self._refuses("connections_max")
        is_room = self.handshakes.begin(newcomer, asyncio.get_running_loop().time())
        return not self._refuses("" if is_room else "tls.handshakes_max")

    def end_handshake(self, newcomer: Newcomer) -> None:
        """It serves a client, or is gone."""
        self.handshakes.end(newcomer)

    def refuse_handshake(self, peer: str, reason: str) -> None:
        """Tell why somebody was closed who did not keep to TLS, or to what comes before it."""
        if reason:
            self.traffic.handshakes_failed += 1
            log.info("%s=%s closed the connection of %s: %s", self.name, self.address, peer, reason)

    def tls_object(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        """With the certificates that are in force now."""
        credentials = self.security.credentials
        assert credentials is not None
        return credentials.context(self.security.terms).wrap_bio(incoming, outgoing, server_side=True)

    def identify(self, certificate: bytes) -> ClientCertificate:
        """Who a client is by its certificate. Raises ValueError."""
        return identify(certificate, self._rules())

    def identify_name(self, common_name: str) -> ClientCertificate:
        """Who a client is by the name that a proxy tells. Raises ValueError."""
        return identify_name(common_name, self._rules())

    def _rules(self) -> UserRules:
        credentials = self.security.credentials
        return UserRules("subject", "DEFAULT") if credentials is None else credentials.rules

    def is_proxy(self, host: str) -> bool:
        """Whether it may say who its clients are."""
        proxies = self.security.proxies
        if not proxies:
            return False
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in proxies)

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)
        if not self._connections:
            self._all_gone.set()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self.beat += 1
        now = loop.time()
        for connection in list(self._connections):
            silent = self.beat - connection.active_beat
            if (silent > LINGER_BEATS and connection.is_lingering) or (
                connection.ends_beat is not None and self.beat > connection.ends_beat
            ):
                connection.abort()
            elif silent > self._idle_beats and connection.is_idle:
                self.traffic.reclaimed += 1
                connection.reclaim()
            else:
                connection.time_passed(now)
        self.handshakes.time_passed(now)
        self._heart = loop.call_later(self._beat_s, self._beat, loop)

    def drain(self) -> None:
        """Accept nobody any more, and let every connection finish what is in flight."""
        self._draining = True
        self._stop_accepting()
        self.handshakes.give_up()
        for connection in list(self._connections):
            connection.drain()

    async def wait_drained(self, timeout_ms: int) -> int:
        """Until all have finished; answers how many had not when the time was over, and were cut."""
        if self._connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._all_gone.wait()
        return self.close()

    def close(self) -> int:
        """Cut what is left; answers how many connections that were."""
        self._draining = True
        self._stop_accepting()
        if self._heart is not None:
            self._heart.cancel()
        self.handshakes.give_up()
        cut = [connection for connection in self._connections if not connection.is_lingering]
        for connection in list(self._connections):
            connection.abort()
        return len(cut)

    def _stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()
