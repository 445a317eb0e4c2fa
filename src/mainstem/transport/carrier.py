"""What a connection needs of that which carries its bytes: a socket's transport, or the TLS layer on one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from mainstem.model.endpoints import Endpoints


class Carrier(Protocol):
    """Sends bytes, and can be told to read no more."""

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send all of it, in order."""

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the peer to read."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Above `high` waiting bytes the connection's `pause_writing` is called."""

    def pause_reading(self) -> None:
        """Bring no more bytes."""

    def resume_reading(self) -> None:
        """Bring bytes again."""

    def can_write_eof(self) -> bool:
        """Whether our half can be ended while the peer's stays open."""

    def write_eof(self) -> None:
        """End our half when all was sent."""

    def close(self) -> None:
        """Close when all was sent."""

    def abort(self) -> None:
        """Close now."""


def endpoints_of(transport: asyncio.BaseTransport, listener: str) -> Endpoints:
    """Both ends of a socket."""
    # Each is a tuple of host, port and more; of a socket in the file system it is a name.
    peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    if not isinstance(peer, tuple) or not isinstance(own, tuple):
        return Endpoints(listener=listener)
    return Endpoints(peer[0], peer[1], own[0], own[1], listener)
