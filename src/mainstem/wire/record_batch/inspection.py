"""Is this a batch? Header and checksum only; no record is decoded, nothing is allocated but the header."""

from collections.abc import Iterator

from mainstem.model.errors import CorruptBatch, InvalidBatch
from mainstem.wire.checksum import crc32c
from mainstem.wire.compression import LAST_CODEC
from mainstem.wire.errors import (
    BatchTruncated,
    InvalidProducerFields,
    InvalidRecordCount,
    UnknownCompression,
    UnsupportedMagic,
)
from mainstem.wire.record_batch.header import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_FROM,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Buffer,
    read_header,
)

RECORD_BYTES_MIN = 7
"""The smallest record: seven one-byte fields."""


def check_batch(buffer: Buffer) -> BatchHeader:
    """The header of a batch as a producer may send it; raises `InvalidBatch` unless the buffer is exactly one.

    Beyond `check_stored_batch`, offsets are dense: as many records as the offset range has places, one at least.
    """
    header = check_stored_batch(buffer)
    count = header.record_count
    if count < 1 or count != header.last_offset_delta + 1:
        raise InvalidRecordCount(f"{count} records over {header.last_offset_delta + 1} offsets")
    if header.producer_id >= 0 and header.base_sequence < 0 and not header.attributes & CONTROL:
        raise InvalidProducerFields(f"producer {header.producer_id} sends sequence {header.base_sequence}")
    return header


def check_stored_batch(buffer: Buffer) -> BatchHeader:
    """The header of a batch that may have been compacted by key: fewer records than offsets, even none."""
    header = read_header(buffer)
    _, length, _, magic, crc, attributes, last_offset_delta, _, _, _, _, _, count = header
    if magic != MAGIC:
        raise UnsupportedMagic(f"magic {magic}: only v2 batches are accepted")
    if length + LOG_OVERHEAD != len(buffer):
        if length + LOG_OVERHEAD > len(buffer):
            raise BatchTruncated(f"a batch of {length + LOG_OVERHEAD} bytes, of which {len(buffer)} are here")
        raise InvalidBatch(f"a batch of {length + LOG_OVERHEAD} bytes in {len(buffer)} bytes")
    codec = attributes & COMPRESSION_MASK
    if codec > LAST_CODEC:
        raise UnknownCompression(f"no codec has the number {codec}")
    if not 0 <= count <= last_offset_delta + 1 or (not codec and count * RECORD_BYTES_MIN > len(buffer) - HEADER_BYTES):
        raise InvalidRecordCount(f"{count} records over {last_offset_delta + 1} offsets in {length} bytes")
    if crc32c(memoryview(buffer)[CRC_FROM:]) != crc:
        raise CorruptBatch("the checksum of the batch does not match")
    return header


def batches_in(buffer: Buffer) -> Iterator[tuple[int, int]]:
    """Position and size of each batch in the buffer, which must hold nothing else. Content is not checked."""
    position, end = 0, len(buffer)
    while position < end:
        _, length, _, magic, *_ = read_header(buffer, position)
        if magic != MAGIC:
            raise UnsupportedMagic(f"magic {magic} at {position}: only v2 batches are accepted")
        size = length + LOG_OVERHEAD
        if size < HEADER_BYTES:
            raise InvalidBatch(f"a batch at {position} claims {size} bytes, less than its header")
        if size > end - position:
            raise BatchTruncated(f"a batch at {position} of {size} bytes, of which {end - position} are here")
        yield position, size
        position += size
