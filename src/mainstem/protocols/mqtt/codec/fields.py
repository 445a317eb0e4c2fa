"""The data types of the standard (MQTT 5, section 1.5), read from a packet's body and written.

Every length is compared with what is there before anything is taken.
"""

from __future__ import annotations

from mainstem.protocols.mqtt.errors import malformed

STRING_BYTES_MAX = 65_535
VARINT_MAX = 268_435_455


class Reader:
    """A position in the body of one packet. What ends too early is malformed."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._end = len(data)

    @property
    def left(self) -> int:
        """Bytes that were not read."""
        return self._end - self._at

    def byte(self) -> int:
        """One byte."""
        return self._take(1)[0]

    def two(self) -> int:
        """A two byte integer."""
        return int.from_bytes(self._take(2), "big")

    def four(self) -> int:
        """A four byte integer."""
        return int.from_bytes(self._take(4), "big")

    def varint(self) -> int:
        """A variable byte integer, in as few bytes as it needs."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 21:
                raise malformed("a variable byte integer has more than four bytes")
        if shift and not byte:
            raise malformed("a variable byte integer has more bytes than it needs")
        return value

    def binary(self) -> bytes:
        """Bytes with their length."""
        return self._take(self.two())

    def text(self) -> str:
        """UTF-8 with its length."""
        return decode_text(self._take(self.two()))

    def rest(self) -> bytes:
        """All that is left."""
        return self._take(self.left)

    def part(self, size: int) -> Reader:
        """The next `count` bytes, as a reader of their own."""
        return Reader(self._take(size))

    def end(self) -> None:
        """Nothing may be left."""
        if self._at < self._end:
            raise malformed(f"{self.left} bytes follow the end of a packet")

    def _take(self, size: int) -> bytes:
        at = self._at
        end = at + size
        if end > self._end:
            raise malformed("a packet ends inside a field")
        self._at = end
        return self._data[at:end]


def decode_text(data: bytes) -> str:
    """UTF-8 without surrogates and without the null character [MQTT-1.5.4-1, MQTT-1.5.4-2]."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise malformed("a string is not UTF-8") from None
    if "\0" in text:
        raise malformed("a string has a null character")
    return text


def encode_varint(value: int) -> bytes:
    """A variable byte integer."""
    assert 0 <= value <= VARINT_MAX
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_binary(data: bytes) -> bytes:
    """Bytes with their length; at most 65,535 of them."""
    return len(data).to_bytes(2, "big") + data


def encode_text(text: str) -> bytes:
    """The same of a text."""
    return encode_binary(text.encode())
