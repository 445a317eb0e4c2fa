"""The HTTP request that asks for a WebSocket, and the answers to it. Pure."""

from __future__ import annotations

import hashlib
from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence

import msgspec

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES = 16
_TOKEN_SIGNS = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
VERSION = "13"
REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    426: "Upgrade Required",
    431: "Request Header Fields Too Large",
}


class HandshakeRefused(Exception):
    """Not a request that can become a WebSocket; `status` is HTTP's."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Upgrade(msgspec.Struct, frozen=True):
    """What a client asked for."""

    path: str
    headers: Mapping[str, str]
    """By names in small letters; one that came several times is joined with commas."""
    key: str
    offered: Sequence[str]
    """Sub-protocols, as the client prefers them."""

    def choose(self, spoken: Sequence[str]) -> str | None:
        """The first sub-protocol that both speak."""
        return next((name for name in self.offered if name in spoken), None)


def decode_upgrade(head: bytes) -> Upgrade:
    """The request, up to its empty line. Raises HandshakeRefused."""
    try:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, version = first.split(" ")
    except ValueError:
        raise HandshakeRefused(400, "the request line cannot be read") from None
    if method != "GET" or version != "HTTP/1.1":
        raise HandshakeRefused(400, "a WebSocket begins with GET and HTTP/1.1")
    headers = _headers(lines)
    if "host" not in headers:
        raise HandshakeRefused(400, "no Host")
    if "websocket" not in _listed(headers, "upgrade") or "upgrade" not in _listed(headers, "connection"):
        raise HandshakeRefused(426, "this port speaks WebSocket")
    if headers.get("sec-websocket-version") != VERSION:
        raise HandshakeRefused(426, f"the version of WebSocket is {VERSION}")
    key = headers.get("sec-websocket-key", "")
    try:
        is_key = len(a2b_base64(key.encode("latin-1"), strict_mode=True)) == _KEY_BYTES
    except BinasciiError:
        is_key = False
    if not is_key:
        raise HandshakeRefused(400, "Sec-WebSocket-Key is not 16 bytes in base64")
    offered = [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",") if name.strip()]
    return Upgrade(path, headers, key, offered)


def _headers(lines: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or not _TOKEN_SIGNS.issuperset(name):
            raise HandshakeRefused(400, "a header cannot be read")
        value = value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _listed(headers: Mapping[str, str], name: str) -> set[str]:
    return {word.strip().lower() for word in headers.get(name, "").split(",")}


def encode_accepted(upgrade: Upgrade, subprotocol: str | None) -> bytes:
    """From here on there are frames."""
    digest = hashlib.sha1(upgrade.key.encode() + _GUID, usedforsecurity=False).digest()
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {b2a_base64(digest, newline=False).decode()}",
    ]
    if subprotocol is not None:
        lines.append(f"Sec-WebSocket-Protocol: {subprotocol}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def encode_refused(refusal: HandshakeRefused) -> bytes:
    """Say why, and close."""
    body = f"{refusal}\n".encode()
    lines = [
        f"HTTP/1.1 {refusal.status} {REASONS[refusal.status]}",
        "Connection: close",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
    ]
    if refusal.status == 426:
        lines += ["Upgrade: websocket", f"Sec-WebSocket-Version: {VERSION}"]
    return "\r\n".join([*lines, "", ""]).encode() + body
