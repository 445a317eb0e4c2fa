"""Variable-length integers, 7 bits to the byte, low bits first.

Records use zigzag varints (32 bits) and varlongs (64 bits); flexible messages use unsigned varints. Readers share one
form, `(buffer, position) -> (value, next position)`; writers append to a bytearray.

Most varints have one byte, nearly all others two. A loop over records reads the first byte itself and calls
`continue_varint` only if there are more.
"""

import mmap

from mainstem.wire.errors import BufferUnderflow, InvalidVarint

VARINT_BITS = 32
VARLONG_BITS = 64

UINT32_MAX = 0xFFFF_FFFF
UINT64_MAX = 0xFFFF_FFFF_FFFF_FFFF
INT32_MIN = -(1 << 31)
INT32_MAX = (1 << 31) - 1
INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1

Buffer = bytes | bytearray | memoryview | mmap.mmap


def decode_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """At most 32 bits, no sign."""
    try:
        byte = buffer[position]
    except IndexError:
        raise BufferUnderflow("the buffer ends before a varint") from None
    if byte < 0x80:
        return byte, position + 1
    return continue_varint(buffer, position + 1, byte)


def decode_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """At most 32 bits, zigzag."""
    value, position = decode_unsigned_varint(buffer, position)
    return (value >> 1) ^ -(value & 1), position


def decode_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """At most 64 bits, zigzag."""
    try:
        value = buffer[position]
    except IndexError:
        raise BufferUnderflow("the buffer ends before a varint") from None
    position += 1
    if value > 0x7F:
        value, position = continue_varint(buffer, position, value, VARLONG_BITS)
    return (value >> 1) ^ -(value & 1), position


def continue_varint(buffer: Buffer, position: int, first: int, bits: int = VARINT_BITS) -> tuple[int, int]:
    """The unsigned value whose first byte, which has its high bit set, stands before `position`."""
    try:
        byte = buffer[position]
        if byte < 0x80:
            return first & 0x7F | byte << 7, position + 1
        value = first & 0x7F | (byte & 0x7F) << 7
        for shift in range(14, bits, 7):
            position += 1
            byte = buffer[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    break
                return value, position + 1
    except IndexError:
        raise BufferUnderflow("the buffer ends inside a varint") from None
    raise InvalidVarint(f"a varint has more than {bits} bits")


def encode_unsigned_varint(out: bytearray, value: int) -> None:
    """Appends at most 32 bits, no sign."""
    assert 0 <= value <= UINT32_MAX, value
    _encode(out, value)


def encode_varint(out: bytearray, value: int) -> None:
    """Appends at most 32 bits, zigzag."""
    assert INT32_MIN <= value <= INT32_MAX, value
    _encode(out, (value << 1) ^ (value >> 31))


def encode_varlong(out: bytearray, value: int) -> None:
    """Appends at most 64 bits, zigzag."""
    assert INT64_MIN <= value <= INT64_MAX, value
    _encode(out, (value << 1) ^ (value >> 63))


def _encode(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def wrap_int64(value: int) -> int:
    """The value in 64-bit arithmetic: timestamp deltas overflow silently in every other implementation."""
    return (value - INT64_MIN & UINT64_MAX) + INT64_MIN
