"""Content of records in JSON: as text where it is text, else in base64."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import msgspec

from mainstem.broker.queues import decode_headers, encode_headers
from mainstem.protocols.http.errors import InvalidContent

CONTENT_CHARACTERS_MAX = 1 << 20


class Bytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that need not be text."""

    base64: str


Content = str | Bytes | None
"""Text, or bytes in base64, or nothing."""


def encode_content(content: Content, pointer: str) -> bytes | None:
    """As a record has it. Raises InvalidContent."""
    if content is None or isinstance(content, str):
        return None if content is None else content.encode()
    try:
        return base64.b64decode(content.base64, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidContent("not base64", f"{pointer}/base64") from None


def decode_content(data: bytes | memoryview | None) -> Content:
    """As JSON has it."""
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return Bytes(base64.b64encode(data).decode())


def encode_header_block(headers: Mapping[str, Content]) -> bytes:
    """Headers as they stand in a record. Raises InvalidContent."""
    return encode_headers([(name, encode_content(content, f"/headers/{name}")) for name, content in headers.items()])


def decode_header_block(block: bytes) -> dict[str, Content]:
    """Headers as JSON has them; of a name that is repeated, the last."""
    return {name: decode_content(content) for name, content in decode_headers(block)}
