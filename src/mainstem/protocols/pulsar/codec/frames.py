"""Frames: a command, and with some commands an entry.

    total u32 | command size u32 | command | entry
    entry:  0e 01 | CRC32C u32 of all that follows | metadata size u32 | metadata | payload

Old clients leave mark and checksum out.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, TypeAlias

from mainstem.protocols.pulsar.codec.schema import BASE, METADATA, Kind, command, decode
from mainstem.protocols.pulsar.errors import MalformedFrame
from mainstem.wire.checksum import crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview

SIZE = struct.Struct(">I")
HEAD = struct.Struct(">II")
SIZE_BYTES = 4
CHECKED = b"\x0e\x01"
CHECKED_BYTES = 6
FRAME_OVERHEAD_BYTES = 10 << 10
"""What a frame has besides its message, at most."""


class WrongChecksum(Exception):
    """An entry was damaged on its way."""


class Entry(NamedTuple):
    """A message, or a batch of them, as it travels."""

    metadata: Any
    payload: Buffer
    whole: Buffer
    """As it was sent, from the mark on; of old clients, from the size of the metadata on."""


def decode_frame(frame: memoryview) -> tuple[Any, memoryview]:
    """The command, and what follows it. The frame is without its own size. Raises MalformedFrame."""
    if len(frame) < SIZE_BYTES:
        raise MalformedFrame("a frame without a command")
    size = SIZE.unpack_from(frame)[0]
    end = SIZE_BYTES + size
    if end > len(frame):
        raise MalformedFrame(f"a command of {size} bytes in a frame of {len(frame)}")
    return decode(BASE, frame[SIZE_BYTES:end]), frame[end:]


def decode_entry(data: memoryview) -> Entry:
    """Metadata and payload. Raises MalformedFrame, WrongChecksum."""
    at = 0
    if data[:2] == CHECKED:
        if len(data) < CHECKED_BYTES:
            raise MalformedFrame("an entry ends in its checksum")
        at = CHECKED_BYTES
        if crc32c(data[at:]) != SIZE.unpack_from(data, 2)[0]:
            raise WrongChecksum("the checksum does not match")
    if len(data) < at + SIZE_BYTES:
        raise MalformedFrame("an entry without metadata")
    size = SIZE.unpack_from(data, at)[0]
    start = at + SIZE_BYTES
    if start + size > len(data):
        raise MalformedFrame(f"metadata of {size} bytes in {len(data) - start}")
    return Entry(decode(METADATA, data[start : start + size]), data[start + size :], data)


def encode_entry(metadata: bytes, payload: Buffer) -> bytes:
    """The entry, with its checksum."""
    content = b"".join((SIZE.pack(len(metadata)), metadata, payload))
    return b"".join((CHECKED, SIZE.pack(crc32c(content)), content))


def encode_frame(said: Any, entry: Buffer = b"") -> list[Buffer]:
    """A command, and what follows it."""
    data = said.SerializeToString()
    head = HEAD.pack(SIZE_BYTES + len(data) + len(entry), len(data)) + data
    return [head, entry] if entry else [head]


def encode_command(kind: Kind, **fields: Any) -> list[Buffer]:
    """A command of this type with these fields."""
    return encode_frame(command(kind, **fields))
