"""A request and a response, whole."""

from __future__ import annotations

import msgspec

JSON = "application/json"
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
