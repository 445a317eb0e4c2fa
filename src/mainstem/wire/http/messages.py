"""A request and a response, whole."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

JSON = "application/json"
LINES = "application/x-ndjson"
EVENTS = "text/event-stream"
OCTETS = "application/octet-stream"
PLAIN_TEXT = "text/plain"
PROBLEM = "application/problem+json"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""Of the Prometheus text format."""


class Request(msgspec.Struct, frozen=True):
    """A complete request."""

    method: str
    path: str
    """As it was sent: still percent-encoded."""
    query: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    def header(self, name: bytes) -> str | None:
        """The value of a header, given in lower case; the first one where it is repeated."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), None)


class Response(msgspec.Struct, frozen=True):
    """A complete response."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class Outlet(Protocol):
    """Where the content of a streamed response goes: the connection."""

    @property
    def is_open(self) -> bool:
        """Whether anybody still reads."""

    @property
    def is_clear(self) -> bool:
        """Whether the peer reads as fast as is written; if not, nothing more should be written for now."""

    def write(self, data: bytes) -> None:
        """Send a part of the content; dropped once nobody reads."""

    def end(self) -> None:
        """That was all."""


class Source(Protocol):
    """Who writes the content of a streamed response."""

    def begin(self, outlet: Outlet) -> None:
        """The head is said: write."""

    def cleared(self) -> None:
        """The outlet is clear again."""

    def closed(self) -> None:
        """Nobody reads any more, or the broker is going: write nothing more."""


class StreamedResponse(msgspec.Struct, frozen=True):
    """A response whose content is written while it goes on."""

    source: Source
    content_type: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


AnyResponse: TypeAlias = Response | StreamedResponse
