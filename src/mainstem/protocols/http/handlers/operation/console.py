"""The console: static pages of our own, which speak to this API like any other client.

Its files are read and packed once, at the start. Nothing in them is made at run time, so that one strict policy holds for all:
scripts and styles come from here alone, and no text can become markup.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from mainstem.protocols.http.codec import Request, Response
from mainstem.protocols.http.errors import UnknownPath
from mainstem.protocols.http.handlers.routes import Call, Octets, Route

OK, NOT_MODIFIED = 200, 304
FOLDER = "console"
INDEX = "index.html"
PACKED_BELOW = 0.9
"""A file that gzip does not make smaller than this is sent as it is."""
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = (
    ("cache-control", "no-cache"),
    ("content-security-policy", POLICY),
    ("cross-origin-opener-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
)


class ConsoleFile(NamedTuple):
    """A file as it is sent."""

    content_type: str
    plain: bytes
    packed: bytes
    """Empty: packing does not help."""
    tag: str


class Console:
    """All files, by their paths below the root."""

    def __init__(self) -> None:
        found = files("mainstem.protocols.http") / FOLDER
        self.files = {f"/{FOLDER}/{name}": _load(name, item.read_bytes()) for name, item in _walk(found, "")}

    def routes(self) -> list[Route]:
        """What is served here, besides the page at the root. No part of the API."""
        return [Route("GET", path, self.get_console_file, {OK: Octets}) for path in self.files]

    def get_console_file(self, call: Call) -> Response:
        """A script, style sheet or picture of the console."""
        found = self.files.get(call.request.path)
        if found is None:
            raise UnknownPath(f"nothing is at {call.request.path}")
        return _answer(found, call.request)

    def page(self, request: Request) -> Response | None:
        """The page at the root, for a browser; None for another client."""
        accepted = request.header(b"accept") or ""
        if "text/html" not in accepted:
            return None
        return _answer(self.files[f"/{FOLDER}/{INDEX}"], request)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            yield from _walk(item, f"{prefix}{item.name}/")
        elif "." + item.name.rpartition(".")[2] in TYPES:
            yield prefix + item.name, item


def _load(name: str, plain: bytes) -> ConsoleFile:
    packed = gzip.compress(plain, 9, mtime=0)
    if len(packed) > len(plain) * PACKED_BELOW:
        packed = b""
    tag = f'"{hashlib.sha256(plain).hexdigest()[:20]}"'
    return ConsoleFile(TYPES["." + name.rpartition(".")[2]], plain, packed, tag)


def _answer(found: ConsoleFile, request: Request) -> Response:
    headers = (*HEADERS, ("etag", found.tag), ("vary", "accept, accept-encoding"))
    if found.tag in (request.header(b"if-none-match") or ""):
        return Response(NOT_MODIFIED, b"", found.content_type, headers)
    if found.packed and "gzip" in (request.header(b"accept-encoding") or ""):
        return Response(OK, found.packed, found.content_type, (*headers, ("content-encoding", "gzip")))
    return Response(OK, found.plain, found.content_type, headers)
