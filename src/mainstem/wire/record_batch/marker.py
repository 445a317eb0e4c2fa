"""The control batch that ends a producer's transaction on one log."""

import struct

from mainstem.wire.errors import InvalidMarker
from mainstem.wire.record_batch.encoding import encode_batch
from mainstem.wire.record_batch.header import CONTROL, NO_SEQUENCE, Buffer, read_header
from mainstem.wire.record_batch.record import decode_records

KEY = struct.Struct(">hh")  # version, type
VALUE = struct.Struct(">hi")  # version, coordinator epoch

VERSION = 0
ABORT = 0
COMMIT = 1

MARKER_BYTES = 78
"""Size of every marker that `encode_marker` writes."""


def encode_marker(
    producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int, coordinator_epoch: int = 0
) -> bytearray:
    """The marker as Kafka's coordinator writes it, at offset 0 until it is placed."""
    key = KEY.pack(VERSION, COMMIT if commit else ABORT)
    value = VALUE.pack(VERSION, coordinator_epoch)
    return encode_batch(
        [(0, timestamp_ms, key, value, ())],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        transactional=True,
        control=True,
    )


def decode_marker(batch: Buffer) -> bool:
    """True if the batch commits, False if it aborts; raises `InvalidMarker` for a batch that does neither."""
    if not read_header(batch).attributes & CONTROL:
        raise InvalidMarker("a batch of data ends no transaction")
    records = decode_records(batch)
    # a later version may be longer, and keeps the first fields
    key = records[0].key if len(records) == 1 else None
    if key is None or len(key) < KEY.size:
        raise InvalidMarker("a control batch of another shape")
    version, kind = KEY.unpack_from(key)
    if version < 0 or kind not in (ABORT, COMMIT):
        raise InvalidMarker(f"a control record of type {kind}")
    return bool(kind == COMMIT)
