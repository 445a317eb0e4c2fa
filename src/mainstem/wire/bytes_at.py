"""Numbers and checksums at a position, as Python: what compiled modules have of `native.pxd` and `checksum.pxd`.

A module that is compiled imports these only while it is not. Where it reads more than one number, `struct` is the faster Python.
"""

from __future__ import annotations

from array import array

from mainstem.wire.checksum import crc32c

Buffer = bytes | bytearray | memoryview


def u32_at(data: Buffer, at: int) -> int:
    """Unsigned, big-endian."""
    return int.from_bytes(data[at : at + 4], "big")


def i32_at(data: Buffer, at: int) -> int:
    """Signed, big-endian."""
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def i64_at(data: Buffer, at: int) -> int:
    """Signed, big-endian."""
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def put_u32(data: bytearray | memoryview, at: int, value: int) -> None:
    """Unsigned, big-endian."""
    data[at : at + 4] = value.to_bytes(4, "big")


def put_i64(data: bytearray | memoryview, at: int, value: int) -> None:
    """Signed, big-endian."""
    data[at : at + 8] = value.to_bytes(8, "big", signed=True)


def put_le32(data: bytearray | memoryview, at: int, value: int) -> None:
    """Unsigned, little-endian."""
    data[at : at + 4] = value.to_bytes(4, "little")


def put_le64(data: bytearray | memoryview, at: int, value: int) -> None:
    """Little-endian, signed or not."""
    data[at : at + 8] = (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")


def append_row(rows: array[int], base: int, place: int, size: int, time: int) -> None:
    """Append four numbers."""
    rows.extend((base, place, size, time))


def number_at(rows: array[int], index: int) -> int:
    """One of them."""
    return rows[index]


def small_number_at(rows: array[int], index: int) -> int:
    """One of a column of 32 bits."""
    return rows[index]


def append_small(rows: array[int], number: int) -> None:
    """Append to such a column."""
    rows.append(number)


def crc32c_at(data: Buffer, at: int, size: int) -> int:
    """CRC32C of a small piece; `crc32c` lets others run while a large one is summed."""
    return crc32c(memoryview(data)[at : at + size])


def bad_piece(content: Buffer, sizes: array[int], crcs: array[int], first: int, stop: int) -> int:
    """Which of the pieces `first` to `stop`, whose bytes follow each other, does not match its checksum; -1: all do."""
    at = 0
    for index in range(first, stop):
        if crc32c_at(content, at, sizes[index]) != crcs[index]:
            return index
        at += sizes[index]
    return -1


def has_crc32c() -> bool:
    """Whether `crc32c_at` can be used: compiled, only where the processor has an instruction for it."""
    return True


def u16_at(data: Buffer, at: int) -> int:
    """Unsigned, big-endian."""
    return int.from_bytes(data[at : at + 2], "big")


def same_at(data: Buffer, at: int, other: Buffer, size: int) -> bool:
    """Whether this other piece stands there."""
    return data[at : at + size] == other[:size]


def put_bytes(data: bytearray | memoryview, at: int, piece: Buffer, size: int) -> int:
    """Answers where it ends."""
    data[at : at + size] = piece[:size]
    return at + size


def put_varint(data: bytearray | memoryview, at: int, value: int) -> int:
    """Zigzag, of a number that is not negative; answers where it ends."""
    value <<= 1
    while value > 0x7F:
        data[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    data[at] = value
    return at + 1


def varint_size(value: int) -> int:
    """Bytes that `put_varint` writes."""
    return max((2 * value).bit_length() + 6, 7) // 7


def grow(data: bytearray, size: int) -> int:
    """Make it longer; answers how long it was."""
    before = len(data)
    data += bytes(size)
    return before
