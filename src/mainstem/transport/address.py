"""Where to listen and what to tell clients: HOST:PORT, with IPv6 addresses in brackets."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

PORT_MAX = 65_535


class InvalidAddress(ValueError):
    """The text is not HOST:PORT."""


class Address(NamedTuple):
    """A host, by name or number, and a port; 0 means any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """From HOST:PORT or [IPv6]:PORT."""
        host, separator, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise InvalidAddress(f"{text!r} is ambiguous: write an IPv6 address as [ADDRESS]:PORT")
        if not separator or not host or not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
            raise InvalidAddress(f"{text!r} is not HOST:PORT")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it means every address of the machine, and so names none that a client could reach."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False
