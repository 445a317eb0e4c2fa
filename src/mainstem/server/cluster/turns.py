"""A broker's ports over its turns as a standby and as the owner of the shard.

The ports stay taken all the time. While the broker stands by, a relay carries each connection to the owner; a client of HTTP is
told where to go. Between two turns connections wait in the kernel.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import cast

from mainstem.protocols.http.handlers.operation.standby import StandbyHttp
from mainstem.protocols.http.session import HttpSettings
from mainstem.server.cluster.member import Member
from mainstem.server.cluster.shared_storage import SharedStorage
from mainstem.server.operations import Condition, ServerOperations
from mainstem.server.settings import Settings
from mainstem.transport.address import Address
from mainstem.transport.listener import Listener, ListenerLimits
from mainstem.transport.receive_buffer import ChunkPool
from mainstem.transport.relay import Relay

log = logging.getLogger("mainstem.cluster")

HTTP = "http"
OWNER_SECONDS_MAX = 10.0
"""How long a client of a standby waits for an owner."""
STANDBY_CHUNKS_BYTES = 1 << 20


class ClusterTurns:
    """The part of a server that only a broker of a cluster has."""

    def __init__(
        self,
        settings: Settings,
        operations: ServerOperations,
        listeners: Sequence[Listener],
        announce: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._operations = operations
        self._announce = announce
        self._ports = [(listener.name, listener.address, listener.share()) for listener in listeners]
        for listener in listeners:
            listener.close()
        self.member = Member(settings, self._advertised())
        self._not_before = 0.0

    def _advertised(self) -> dict[str, str]:
        return {name: addresses[0] for name, addresses in self._operations.advertised().items()}

    async def begin(self) -> None:
        """Join the cluster. Raises kinds of MainstemError, OSError."""
        await self.member.join()
        self._operations.member = self.member

    async def end(self) -> None:
        """Leave it."""
        self.give_ports_back()
        await self.member.leave()

    def give_ports_back(self) -> None:
        """For good: clients that come now are refused, and go to another broker."""
        for _, _, bound in self._ports:
            bound.close()
        self._ports.clear()

    def lend(self, listeners: Sequence[Listener]) -> None:
        """Give each listener of the owner its port."""
        for listener, (_, _, bound) in zip(listeners, self._ports, strict=True):
            listener.adopt(bound.dup())

    def leave_to_others(self) -> None:
        """Somebody else shall have the shard, unless nobody takes it for the length of a lease."""
        self._not_before = time.monotonic() + self._settings.cluster.lease_ms / 1000

    def serves(self, storage: SharedStorage) -> None:
        """Clients are served: tell the others where."""
        storage.announce(self._advertised())

    async def stand_by(self, stop: asyncio.Event) -> SharedStorage | None:
        """Lead clients to the owner until this broker is it; None when it was told to stop before."""
        if time.monotonic() >= self._not_before:
            storage = await self.member.try_to_take()
            if storage is not None:
                return storage
        self._operations.state = Condition.STANDBY
        relays, listeners = self._open_ports()
        try:
            for relay in relays:
                await relay.start()
            for listener in listeners:
                await listener.start()
            owner = self.member.owner
            where = " ".join(f"{name}={address}" for name, address, _ in self._ports)
            self._announce(f"standby {where} owner={owner.owner if owner is not None else 'none'}")
            return await self.member.stand_by(stop, self._not_before)
        finally:
            for relay in relays:
                relay.close()
            for listener in listeners:
                listener.close()

    def _open_ports(self) -> tuple[list[Relay], list[Listener]]:
        relays, listeners = [], []
        limits = self._settings.limits
        for name, address, bound in self._ports:
            if name == HTTP:
                settings = cast(HttpSettings, self._settings.protocols[HTTP])
                http = StandbyHttp(settings, self._operations, lambda: self.member.owner_address(HTTP))
                listener = Listener(
                    name,
                    address,
                    http.open_session,
                    ListenerLimits(
                        connections_max=limits.connections_max,
                        idle_timeout_ms=limits.idle_timeout_ms,
                        write_buffer_bytes_max=limits.write_buffer_bytes_max,
                    ),
                    ChunkPool(STANDBY_CHUNKS_BYTES),
                )
                listener.adopt(bound.dup())
                listeners.append(listener)
            else:
                find = functools.partial(self._find_owner, name)
                relays.append(Relay(name, bound.dup(), find, limits.connections_max))
        return relays, listeners

    async def _find_owner(self, name: str) -> Address | None:
        text = await self.member.wait_owner_address(name, OWNER_SECONDS_MAX)
        return None if text is None else Address.parse(text)
