"""The console: static pages of our own, which speak to this API like any other client.

Its files are read once, at the start. Nothing in them is made at run time, so that one strict policy holds for all:
scripts and styles come from here alone, and no text can become markup.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

import cramjam

from mainstem.protocols.http.codec import Request, Response
from mainstem.protocols.http.errors import UnknownPath
from mainstem.protocols.http.handlers.routes import Call, Octets, Route

OK, NOT_MODIFIED = 200, 304
FOLDER = "console"
INDEX = "index.html"
PACKED_FROM_BYTES = 300
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "br": lambda plain: bytes(cramjam.brotli.compress(plain, 11)),
    "gzip": lambda plain: gzip.compress(plain, 9, mtime=0),
}
"""By their names in HTTP, the better one first. Browsers take `br` from this machine or over TLS."""
COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
INDENT = re.compile(rb"^[ \t]+", re.MULTILINE)
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


class ConsoleFile:
    """A file as it is sent. It is packed when a client first asks for it so."""

    def __init__(self, name: str, content: bytes) -> None:
        suffix = "." + name.rpartition(".")[2]
        self.content_type = TYPES[suffix]
        self.plain = _without_comments(content) if suffix in (".js", ".css") else content
        self.tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        self._packed: dict[str, bytes] = {}

    def packed(self, coding: str) -> bytes:
        """In a coding of `PACKERS`."""
        if coding not in self._packed:
            self._packed[coding] = PACKERS[coding](self.plain)
        return self._packed[coding]


class Console:
    """All files, by their paths below the root."""

    def __init__(self) -> None:
        found = files("mainstem.protocols.http") / FOLDER
        self.files = {f"/{FOLDER}/{name}": ConsoleFile(name, item.read_bytes()) for name, item in _walk(found, "")}

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


def _without_comments(content: bytes) -> bytes:
    """What only developers read is not sent. Each line keeps its number."""
    bare = COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), content)
    return INDENT.sub(b"", bare)


def _answer(found: ConsoleFile, request: Request) -> Response:
    headers = (*HEADERS, ("etag", found.tag), ("vary", "accept, accept-encoding"))
    if found.tag in (request.header(b"if-none-match") or ""):
        return Response(NOT_MODIFIED, b"", found.content_type, headers)
    accepted = (request.header(b"accept-encoding") or "").replace(" ", "").split(",")
    coding = next((coding for coding in PACKERS if coding in accepted), None)
    if coding is None or len(found.plain) < PACKED_FROM_BYTES:
        return Response(OK, found.plain, found.content_type, headers)
    return Response(OK, found.packed(coding), found.content_type, (*headers, ("content-encoding", coding)))
