"""Connections that are served elsewhere: the relay carries their bytes there and back, unseen.

It works below every protocol and below encryption: a client talks to the other side from the first byte on. The relay reads
each direction only as fast as the other end takes it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

from mainstem.transport.address import Address

log = logging.getLogger(__name__)

CONNECT_SECONDS_MAX = 3.0
BUFFER_BYTES_MAX = 256 << 10
"""Waiting bytes of one direction, above which its sender is not read."""

FindTarget: TypeAlias = Callable[[], Awaitable[Address | None]]
"""Where to go; None when there is no such place in good time."""


class Relay:
    """A listening socket whose connections are carried on."""

    def __init__(self, name: str, bound: socket.socket, find_target: FindTarget, connections_max: int) -> None:
        self.name = name
        self.find_target = find_target
        self.accepted = 0
        self._bound = bound
        self._connections_max = connections_max
        self._ends: set[_Near] = set()
        self._server: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._ends)

    async def start(self) -> None:
        """Listen and accept."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Near(self), sock=self._bound)

    def admit(self, end: _Near) -> bool:
        """Count one more connection, or refuse it."""
        if self._server is None or len(self._ends) >= self._connections_max:
            return False
        self.accepted += 1
        self._ends.add(end)
        return True

    def forget(self, end: _Near) -> None:
        """A connection is gone."""
        self._ends.discard(end)

    def close(self) -> None:
        """Accept nobody any more, and cut what is open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for end in list(self._ends):
            end.cut()


class _End(asyncio.Protocol):
    """One of the two connections of a relayed one; what it receives, the other sends."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=BUFFER_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.send(data)

    def send(self, data: bytes) -> None:
        """Send what the other side received."""
        if self.transport is not None:
            self.transport.write(data)

    def eof_received(self) -> bool:
        if self.other is not None and self.other.transport is not None and self.other.transport.can_write_eof():
            self.other.transport.write_eof()
            return True
        return False

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def cut(self) -> None:
        """End at once, at both sides."""
        for end in (self, self.other):
            if end is not None and end.transport is not None:
                end.transport.abort()


class _Near(_End):
    """The client's side. What it says before the other side is there, in one read, waits for it."""

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay
        self._connecting: asyncio.Task[None] | None = None
        self._early = b""
        self._has_ended_early = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        if not self._relay.admit(self):
            self.transport.abort()
            return
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            super().data_received(data)
        elif self.transport is not None:
            self._early += data
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        if self.other is not None:
            return super().eof_received()
        self._has_ended_early = True
        return True

    async def _connect(self) -> None:
        target = await self._relay.find_target()
        if target is not None and self.transport is not None:
            loop = asyncio.get_running_loop()
            far = _End()
            far.other = self  # it may have something to say at once
            try:
                async with asyncio.timeout(CONNECT_SECONDS_MAX):
                    await loop.create_connection(lambda: far, target.host, target.port)
            except (OSError, TimeoutError) as error:
                log.warning("%s: %s cannot be reached: %s", self._relay.name, target, error or "no answer")
            else:
                self._join(far)
                return
        if self.transport is not None:
            self.transport.abort()

    def _join(self, far: _End) -> None:
        self.other = far
        if self.transport is None:
            far.cut()
            return
        early, self._early = self._early, b""
        if early:
            far.send(early)
            self.transport.resume_reading()
        if self._has_ended_early:
            self.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._relay.forget(self)
        if self._connecting is not None:
            self._connecting.cancel()
        super().connection_lost(error)
