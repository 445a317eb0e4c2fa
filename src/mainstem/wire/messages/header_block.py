"""The headers of a record, as one block of bytes: what a message carries along and hardly anybody looks into.

Compiled where it can be.
"""

from __future__ import annotations

from mainstem.model.header_names import TTL_HEADER
from mainstem.wire.record_batch.encoding import encode_headers
from mainstem.wire.varint import decode_varint

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import same_at

_TTL_NAME = TTL_HEADER.encode()
TTL_DIGITS_MAX = 19


def decode_headers(block: bytes) -> list[tuple[str, bytes | None]]:
    """The entries of a block, which was checked when it was read or made here."""
    count, position = decode_varint(block, 0)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = decode_varint(block, position)
        name = block[position : position + size].decode("utf-8", "replace")
        position += size
        size, position = decode_varint(block, position)
        if size < 0:
            headers.append((name, None))
        else:
            headers.append((name, block[position : position + size]))
            position += size
    return headers


def find_header(block: bytes, name: bytes) -> bytes | None:
    """The content of the first header of this name, without decoding the others."""
    data = block
    end, size = len(block), len(name)
    at = number = 0
    is_it = False
    while at < end:
        raw = shift = 0
        while at < end and shift < 35:
            byte = data[at]
            at += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if number:  # the first number is the count; then names and contents, in turn
            if is_it:
                return None if raw & 1 else block[at : at + (raw >> 1)]
            if number & 1:
                is_it = raw >> 1 == size and end - at >= size and same_at(data, at, name, size)
            if not raw & 1:
                at += raw >> 1
        number += 1
    return None


def add_header(block: bytes, name: str, content: bytes) -> bytes:
    """The block with this header in place of any of the same name."""
    kept = [header for header in decode_headers(block) if header[0] != name]
    return encode_headers([*kept, (name, content)])


def ttl_of(headers: bytes) -> int:
    """What `mainstem-ttl` says; -1: nothing."""
    if _TTL_NAME not in headers:
        return -1
    for name, content in decode_headers(headers):
        if name == TTL_HEADER and content is not None and content.isdigit() and len(content) < TTL_DIGITS_MAX:
            return int(content)
    return -1
