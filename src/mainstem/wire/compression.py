"""The codecs that a batch's attributes may name, with a limit on what comes out.

A few kilobytes can expand to gigabytes, so nothing here lets a codec allocate its own output: it is given a buffer that
never exceeds the limit. The first buffer is as large as the data says of itself, or a guess; a guess that was too small
is tried again, four times larger.

Large content stays in memory that is mapped for it. The kernel gives its pages while the codec writes them, and the codec
runs without the interpreter's lock; a bytearray is cleared and copied under the lock, which stops every other thread for
a tenth of a second.
"""

import enum
import mmap
import struct
from collections.abc import Callable, Iterator
from typing import Final

import cramjam

from mainstem.wire.errors import DecompressedTooLarge, UndecodableCompression, UnknownCompression

Buffer = bytes | bytearray | memoryview
Content = bytes | mmap.mmap
"""What was compressed. Both kinds give a number for an index and bytes for a slice."""

DECOMPRESSED_BYTES_MAX = 128 << 20
"""Largest content of one batch that a reader accepts unless it says otherwise."""

MAPPED_BYTES_MIN = 1 << 20
"""Content that may be larger than this is mapped."""
FIRST_GUESS_BYTES_MIN = 16 << 10
GUESS_RATIO = 4
DEFLATE_RATIO_MAX = 1032
OUTPUT_FULL = "failed to write whole buffer"
"""How cramjam, which has one class of error, says that only the output buffer was too small."""

# xerial framing: the block format of the Java snappy library, which Kafka's Java client writes. Size and version fields
# are fixed since its first release; blocks are 32 KiB before compression.
XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 << 10
_INT32 = struct.Struct(">i")


class Compression(enum.IntEnum):
    """Codec numbers, as in the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


NONE: Final = Compression.NONE
GZIP: Final = Compression.GZIP
SNAPPY: Final = Compression.SNAPPY
LZ4: Final = Compression.LZ4
ZSTD: Final = Compression.ZSTD

LAST_CODEC: Final = int(ZSTD)


def compress(codec: int, content: Buffer | Content, level: int | None = None) -> Buffer | Content:
    """The data as the codec of this number writes it; the content itself for none."""
    match codec:
        case Compression.NONE:
            return content
        case Compression.GZIP:
            return memoryview(cramjam.gzip.compress(content, level))
        case Compression.SNAPPY:
            return _compress_xerial(content)
        case Compression.LZ4:
            return memoryview(cramjam.lz4.compress(content, level))
        case Compression.ZSTD:
            return memoryview(cramjam.zstd.compress(content, level))
        case _:
            raise UnknownCompression(f"no codec has the number {codec}")


def decompress(codec: int, data: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The content as bytes; raises a kind of `InvalidBatch` if it is no such data or larger than `bytes_max`."""
    content = unpack(codec, data, bytes_max)
    return content if isinstance(content, bytes) else content[:]


def unpack(codec: int, data: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Content:
    """The same; large content stays where the codec has written it."""
    match codec:
        case Compression.NONE:
            if len(data) > bytes_max:
                raise DecompressedTooLarge(f"{len(data)} bytes, above the limit of {bytes_max}")
            return bytes(data)
        case Compression.GZIP:
            return _unpack_guessing(cramjam.gzip.decompress_into, data, _gzip_size(data), bytes_max)
        case Compression.SNAPPY:
            return _unpack_snappy(data, bytes_max)
        case Compression.LZ4:
            return _unpack_guessing(cramjam.lz4.decompress_into, data, 0, bytes_max)
        case Compression.ZSTD:
            return _unpack_guessing(cramjam.zstd.decompress_into, data, 0, bytes_max)
        case _:
            raise UnknownCompression(f"no codec has the number {codec}")


def _gzip_size(data: Buffer) -> int:
    # RFC 1952: the last four bytes are the size modulo 2^32. A peer may lie, so it is only a first guess, and none at
    # all where deflate could not reach it.
    size = int.from_bytes(data[-4:], "little")
    return size if size <= len(data) * DEFLATE_RATIO_MAX else 0


def _unpack_guessing(
    decompress_into: Callable[[Buffer, Buffer], int], data: Buffer, announced: int, bytes_max: int
) -> Content:
    capacity = announced or max(len(data) * GUESS_RATIO, FIRST_GUESS_BYTES_MIN)
    while True:
        # Mapped memory costs nothing until it is written to: there is no need to guess.
        capacity = min(capacity, bytes_max) if capacity < MAPPED_BYTES_MIN else bytes_max
        # one byte above the limit tells what just fits from what does not
        output = _output(capacity + 1)
        try:
            with memoryview(output) as view:
                size = decompress_into(data, view)
        except cramjam.DecompressionError as refusal:
            if OUTPUT_FULL not in str(refusal):
                raise UndecodableCompression(str(refusal)) from None
            if capacity >= bytes_max:
                raise DecompressedTooLarge(f"more than the limit of {bytes_max} bytes") from None
            capacity *= GUESS_RATIO
            continue
        if size > bytes_max:
            raise DecompressedTooLarge(f"more than the limit of {bytes_max} bytes")
        return _first(output, size)


def _output(size: int) -> bytearray | mmap.mmap:
    return bytearray(size) if size <= MAPPED_BYTES_MIN else mmap.mmap(-1, size)


def _first(output: bytearray | mmap.mmap, size: int) -> Content:
    """The written part of an output."""
    if isinstance(output, bytearray):
        with memoryview(output) as view:
            return bytes(view[:size])
    if size <= MAPPED_BYTES_MIN:
        return output[:size]
    try:
        output.resize(size)
    except SystemError:  # This system cannot: it has to be copied.
        return output[:size]
    return output


def _compress_xerial(content: Buffer | Content) -> bytearray:
    out = bytearray(XERIAL_HEADER)
    with memoryview(content) as view:
        for start in range(0, len(view), XERIAL_BLOCK_BYTES):
            block = cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES])
            out += _INT32.pack(len(block))
            out += memoryview(block)
    return out


def _unpack_snappy(data: Buffer, bytes_max: int) -> Content:
    # Java's library writes xerial framing, librdkafka and others write one raw block: both are read
    with memoryview(data) as view:
        is_framed = bytes(view[: len(XERIAL_MAGIC)]) == XERIAL_MAGIC
        blocks = list(_xerial_blocks(view)) if is_framed else [view]
        try:
            sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
            size = sum(sizes)
            if size > bytes_max:
                raise DecompressedTooLarge(f"snappy announces {size} bytes, above the limit of {bytes_max}")
            output = _output(size)
            position = 0
            with memoryview(output) as target:
                for block, block_size in zip(blocks, sizes, strict=True):
                    position += cramjam.snappy.decompress_raw_into(block, target[position : position + block_size])
        except cramjam.DecompressionError as refusal:
            raise UndecodableCompression(str(refusal)) from None
    return _first(output, position)


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    position, end = len(XERIAL_HEADER), len(view)
    while position < end:
        if position + 4 > end:
            raise UndecodableCompression("snappy data ends inside a block size")
        size = _INT32.unpack_from(view, position)[0]
        position += 4
        if not 0 < size <= end - position:
            raise UndecodableCompression(f"a snappy block of {size} bytes, where {end - position} remain")
        yield view[position : position + size]
        position += size
    if position != end:
        raise UndecodableCompression("snappy data ends inside its header")
