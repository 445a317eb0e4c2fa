"""How a record names its schema: a zero, the id in four bytes, and in Protobuf which message of the file it is.

The message is a path of indexes, each a zigzag varint behind their count; a single zero stands for the first message.
"""

from __future__ import annotations

from mainstem.wire.errors import MalformedBytes
from mainstem.wire.varint import decode_varint

MAGIC = 0
FRAME_BYTES = 5
INDEXES_MAX = 100


def schema_id_of(value: bytes | memoryview | None) -> int | None:
    """The id that a record names; None where it names none."""
    if value is None or len(value) < FRAME_BYTES or value[0] != MAGIC:
        return None
    return int.from_bytes(value[1:FRAME_BYTES], "big")


def message_path_of(value: bytes) -> tuple[tuple[int, ...], int] | None:
    """Which message a framed Protobuf value is, and where its bytes begin; None where it does not say."""
    try:
        count, position = decode_varint(value, FRAME_BYTES)
        if not count:
            return (0,), position
        if not 0 < count <= INDEXES_MAX:
            return None
        path = []
        for _ in range(count):
            index, position = decode_varint(value, position)
            path.append(index)
    except (IndexError, MalformedBytes):
        return None
    return tuple(path), position
