"""Lengths in hot messages: read without an object per value, checked before they are believed."""

from __future__ import annotations

import struct

from mainstem.wire.errors import BufferUnderflow, InvalidLength
from mainstem.wire.varint import decode_unsigned_varint

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")


def text_at(data: memoryview, position: int, flexible: bool) -> tuple[str | None, int]:
    """A string, or None for null, and where it ends."""
    if flexible:
        length, position = varint_at(data, position)
        length -= 1
    else:
        (length,) = INT16.unpack_from(data, position)
        position += 2
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise BufferUnderflow(f"a string of {length} bytes, where {len(data) - position} are left")
    return str(data[position:end], "utf-8"), end


def count_at(data: memoryview, position: int, flexible: bool, element_bytes_min: int) -> tuple[int, int]:
    """The number of elements of an array that may not be null."""
    if flexible:
        count, position = varint_at(data, position)
        count -= 1
    else:
        (count,) = INT32.unpack_from(data, position)
        position += 4
    if count < 0 or count * element_bytes_min > len(data) - position:
        raise InvalidLength(f"an array of {count} elements, where {len(data) - position} bytes are left")
    return count, position


def bytes_at(data: memoryview, position: int, flexible: bool) -> tuple[memoryview | None, int]:
    """A view of bytes, or None for null, and where it ends."""
    if flexible:
        length, position = varint_at(data, position)
        length -= 1
    else:
        (length,) = INT32.unpack_from(data, position)
        position += 4
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise BufferUnderflow(f"{length} bytes are announced, {len(data) - position} are left")
    return data[position:end], end


def varint_at(data: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint; one byte, mostly."""
    value = data[position]
    if value < 0x80:
        return value, position + 1
    return decode_unsigned_varint(data, position)


def skip_tags(data: memoryview, position: int) -> int:
    """Where the tag section ends; empty, mostly."""
    if data[position] == 0:
        return position + 1
    count, position = varint_at(data, position)
    for _ in range(count):
        _, position = varint_at(data, position)
        size, position = varint_at(data, position)
        position += size
        if position > len(data):
            raise BufferUnderflow("a tagged field goes beyond the request")
    return position
