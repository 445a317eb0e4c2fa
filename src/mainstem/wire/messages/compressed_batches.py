"""Messages out of compressed batches, which can be far larger than they look.

A large one is decoded piece by piece. Each piece is decoded under the interpreter's lock, so a thread that decodes a
hundred megabytes lets others run between two pieces.
"""

from __future__ import annotations

import mmap
from typing import Any

from mainstem.wire.errors import DecompressedTooLarge, MalformedBytes, MalformedRecords
from mainstem.wire.messages.message import Message
from mainstem.wire.messages.stored_messages import decode_opened
from mainstem.wire.record_batch import BatchHeader, open_batch
from mainstem.wire.record_batch.survey import APART
from mainstem.wire.varint import decode_varint

PIECE_BYTES = 256 << 10


def decode_compressed(batch: memoryview, lane: Any, bytes_max: int) -> tuple[list[Message], int]:
    """The records of a stored batch, and their size once decompressed. Raises InvalidBatch."""
    header, body = open_batch(batch, bytes_max)
    if header.record_count > APART.records_max:
        raise DecompressedTooLarge(f"{header.record_count} records, above the limit of {APART.records_max}")
    if isinstance(body, bytes):
        return decode_opened(header, body, lane), len(body)
    return _decode_pieces(header, body, lane), len(body)


def _decode_pieces(header: BatchHeader, body: mmap.mmap, lane: Any) -> list[Message]:
    found: list[Message] = []
    position, left, size = 0, header.record_count, PIECE_BYTES
    while left:
        piece = body[position : position + size]
        count, end = _whole_records(piece, left)
        if not count:
            if position + size >= len(body):
                raise MalformedRecords("the batch ends inside a record")
            size *= 2
            continue
        messages = decode_opened(header._replace(record_count=count), piece[:end], lane)
        if found and messages[0].offset <= found[-1].offset:
            raise MalformedRecords(f"offset {messages[0].offset} after {found[-1].offset}")
        found += messages
        position += end
        left -= count
        size = PIECE_BYTES
    return found


def _whole_records(piece: bytes, count_max: int) -> tuple[int, int]:
    """How many records lie in the piece as a whole, and where they end."""
    count = end = 0
    while count < count_max:
        try:
            length, position = decode_varint(piece, end)
        except (IndexError, MalformedBytes):
            break
        if length < 0 or position + length > len(piece):
            break
        end = position + length
        count += 1
    return count, end
