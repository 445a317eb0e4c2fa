"""What an entry holds: one message, or a batch of them, compressed as a whole.

n x ( metadata size u32 | metadata of one message | its payload )
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import cramjam

from mainstem.protocols.pulsar.codec.frames import SIZE, SIZE_BYTES, Buffer
from mainstem.protocols.pulsar.codec.schema import SINGLE, decode
from mainstem.protocols.pulsar.errors import MalformedFrame

NONE, LZ4, ZLIB, ZSTD, SNAPPY = range(5)
"""Codecs, by their numbers."""
MESSAGE_BYTES_MIN = SIZE_BYTES + 2


def decompress(codec: int, payload: Buffer, size: int, bytes_max: int) -> bytes:
    """The payload itself. Raises MalformedFrame."""
    if codec == NONE:
        return bytes(payload)
    if size > bytes_max:
        raise MalformedFrame(f"a payload of {size} bytes once decompressed; at most {bytes_max}")
    try:
        found = _decompress(codec, payload, size)
    except (cramjam.DecompressionError, zlib.error, ValueError, OverflowError) as error:
        raise MalformedFrame(f"the payload cannot be decompressed: {error}") from None
    if len(found) != size:
        raise MalformedFrame(f"{len(found)} bytes once decompressed, where {size} are announced")
    return found


def _decompress(codec: int, payload: Buffer, size: int) -> bytes:
    if codec == ZLIB:
        return zlib.decompressobj().decompress(payload, size + 1)
    output = bytearray(size)
    if codec == LZ4:
        written = cramjam.lz4.decompress_block_into(payload, output, output_len=size)
    elif codec == ZSTD:
        written = cramjam.zstd.decompress_into(payload, output)
    elif codec == SNAPPY:
        if cramjam.snappy.decompress_raw_len(payload) != size:
            raise ValueError("another size than announced")
        written = cramjam.snappy.decompress_raw_into(payload, output)
    else:
        raise ValueError(f"no codec has the number {codec}")
    return bytes(output[:written])


def split(payload: bytes, count: int) -> list[tuple[Any, bytes]]:
    """The messages of a batch: metadata and payload of each. Raises MalformedFrame."""
    if not 0 < count * MESSAGE_BYTES_MIN <= len(payload):
        raise MalformedFrame(f"{count} messages in {len(payload)} bytes")
    found: list[tuple[Any, bytes]] = []
    at, end = 0, len(payload)
    while len(found) < count:
        if end - at < SIZE_BYTES:
            raise MalformedFrame(f"a batch ends after {len(found)} of {count} messages")
        size = SIZE.unpack_from(payload, at)[0]
        at += SIZE_BYTES
        if size > end - at:
            raise MalformedFrame(f"metadata of {size} bytes where {end - at} remain")
        single = decode(SINGLE, payload[at : at + size])
        at += size
        length = single.payload_size
        if not 0 <= length <= end - at:
            raise MalformedFrame(f"a message of {length} bytes where {end - at} remain")
        found.append((single, payload[at : at + length]))
        at += length
    if at != end:
        raise MalformedFrame(f"{end - at} bytes behind the last message of a batch")
    return found


def join(messages: Iterable[tuple[Any, Buffer]]) -> bytes:
    """A batch of messages, whose metadata say how large they are."""
    parts: list[Buffer] = []
    for single, payload in messages:
        data = single.SerializeToString()
        parts += (SIZE.pack(len(data)), data, payload)
    return b"".join(parts)
