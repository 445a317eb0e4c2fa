"""The 61 bytes before a batch's records."""

import struct
from typing import Final, NamedTuple

from mainstem.wire.errors import BatchTruncated

Buffer = bytes | bytearray | memoryview

# at  0  base offset          i64     outside the checksum: the broker writes it
# at  8  batch length         i32     of everything after this field
# at 12  leader epoch         i32     outside the checksum: the broker writes it
# at 16  magic                i8      2
# at 17  checksum             u32     CRC32C of everything from 21
# at 21  attributes           i16
# at 23  last offset delta    i32
# at 27  base timestamp       i64     the delete horizon instead, if that bit is set
# at 35  max timestamp        i64
# at 43  producer id          i64
# at 51  producer epoch       i16
# at 53  base sequence        i32
# at 57  record count         i32
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LOG_OVERHEAD: Final = 12
"""Base offset and batch length: what the batch length does not count."""

BASE_OFFSET_AT: Final = 0
BATCH_LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_FROM: Final = 21
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORD_COUNT_AT: Final = 57

MAGIC: Final = 2

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_PRODUCER: Final = -1
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1


class BatchHeader(NamedTuple):
    """The fields as stored, and what their bits mean."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The highest offset that the batch stands for, whether or not its record is still there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where the next batch begins."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """The codec's number."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record reads as of the max timestamp."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the records count only once their transaction commits."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether this is a marker, which no consumer sees."""
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may go; None until compaction has seen it once."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


_new_tuple = tuple.__new__
_unpack_from = HEADER.unpack_from


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked but for being there."""
    try:
        # the tuple is already the right one: the generated constructor would only unpack and repack it
        return _new_tuple(BatchHeader, _unpack_from(buffer, position))
    except struct.error:
        raise BatchTruncated(f"{len(buffer) - position} bytes are too few for a batch header") from None
