"""Where the two ends of a connection are."""

from __future__ import annotations

from typing import NamedTuple


class Endpoints(NamedTuple):
    """The peer's address and ours; empty where they are not known, as with a socket in the file system."""

    peer_host: str = ""
    peer_port: int = 0
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"{self.peer} -> {_address(self.host, self.port)}"

    @property
    def peer(self) -> str:
        """Where the client is."""
        return _address(self.peer_host, self.peer_port)


UNKNOWN = Endpoints()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
