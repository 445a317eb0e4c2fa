"""Reading primitive values from bytes that a peer sent.

Every length is compared with the bytes that are left before anything is allocated for it, and elements of arrays are
counted over the whole message: a short request may otherwise announce millions of structs.
"""

import struct
import uuid
from typing import Any

from mainstem.wire.errors import (
    BufferUnderflow,
    InvalidLength,
    InvalidText,
    InvalidVarint,
    TooManyElements,
    UnexpectedNull,
)
from mainstem.wire.varint import decode_unsigned_varint

Buffer = bytes | bytearray | memoryview

ELEMENTS_MAX = 1_000_000
"""Array elements in one message, nested ones included."""

INT8 = struct.Struct(">b")
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
UUID_BYTES = 16


class Reader:
    """A position in a buffer that only moves forward."""

    __slots__ = ("buffer", "elements_left", "end", "position")

    def __init__(self, buffer: Buffer, position: int = 0, elements_max: int = ELEMENTS_MAX) -> None:
        self.buffer = memoryview(buffer)
        self.position = position
        self.end = len(self.buffer)
        self.elements_left = elements_max

    def take(self, size: int) -> memoryview:
        """The next bytes, uncopied."""
        start = self.position
        stop = start + size
        if stop > self.end:
            raise BufferUnderflow(f"{size} bytes are announced, {self.end - start} are left")
        self.position = stop
        return self.buffer[start:stop]

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The next fixed-size values."""
        start = self.position
        stop = start + layout.size
        if stop > self.end:
            raise BufferUnderflow(f"{layout.size} bytes are expected, {self.end - start} are left")
        self.position = stop
        return layout.unpack_from(self.buffer, start)

    def unsigned_varint(self) -> int:
        """At most 31 bits: every length, count, tag and size fits."""
        value, position = decode_unsigned_varint(self.buffer, self.position)
        if position > self.end:
            raise BufferUnderflow("a tagged field ends inside a varint")
        if value > 0x7FFF_FFFF:
            raise InvalidVarint(f"{value} has more than 31 bits")
        self.position = position
        return value

    def length16(self) -> int:
        """Length of a string: -1 is null."""
        return self._checked(self.unpack(INT16)[0])

    def length32(self) -> int:
        """Length of bytes: -1 is null."""
        return self._checked(self.unpack(INT32)[0])

    def compact_length(self) -> int:
        """Length of anything in a flexible version: -1 is null."""
        return self._checked(self.unsigned_varint() - 1)

    def _checked(self, length: int) -> int:
        if not -1 <= length <= self.end - self.position:
            raise InvalidLength(f"a length of {length}, where {self.end - self.position} bytes are left")
        return length

    def count(self, is_compact: bool, element_bytes_min: int) -> int:
        """How many elements follow: -1 is null."""
        count: int = self.unsigned_varint() - 1 if is_compact else self.unpack(INT32)[0]
        if count < -1:
            raise InvalidLength(f"an array of {count} elements")
        if count > self.elements_left or count * element_bytes_min > self.end - self.position:
            raise TooManyElements(f"{count} elements, where {self.end - self.position} bytes are left")
        if count > 0:
            self.elements_left -= count
        return count

    def text(self, length: int) -> str:
        """A number of bytes of UTF-8."""
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError:
            raise InvalidText("a string is not UTF-8") from None

    def uuid(self) -> uuid.UUID:
        """Sixteen bytes."""
        return uuid.UUID(bytes=bytes(self.take(UUID_BYTES)))


def unexpected_null(name: str) -> UnexpectedNull:
    """The error for a null in a field that has none."""
    return UnexpectedNull(f"{name} cannot be null")
