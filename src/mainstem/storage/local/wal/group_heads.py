"""What describes the groups of a file, read without what they hold.

It lies in memory as far from the beginning as in the file. Pages of it that nothing is read into are never asked for.
"""

from __future__ import annotations

import mmap
import struct

from mainstem.storage.local.frame import (
    COMMIT,
    DATA,
    FRAME_BYTES,
    KIND_NAMES,
    SECTOR_BYTES,
    BadFrame,
    decode_data_head,
    pad_to_sector,
)
from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.runtime.disk import DiskFile
from mainstem.wire.record_batch import HEADER_BYTES

_kind_and_sizes = struct.Struct("<2xBxxxxxII").unpack_from


def read_heads(file: DiskFile, end: int, limits: MergeLimits) -> memoryview | None:
    """Memory for a file up to `end`, with its frames and the heads of its batches; None where batches are small.

    What follows damage may be missing.
    """
    look_bytes = limits.heads_look_bytes
    content = memoryview(mmap.mmap(-1, end, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def look(start: int, stop: int) -> None:
        stop = min(stop, end)
        if start < stop:
            file.read_into(content[start:stop], start)

    look(0, SECTOR_BYTES)
    at = SECTOR_BYTES
    while at + FRAME_BYTES <= end:
        look(at, at + look_bytes)
        kind, head_bytes, body_bytes = _kind_and_sizes(content, at)
        if kind not in KIND_NAMES:
            break
        head, body = at + FRAME_BYTES, at + FRAME_BYTES + head_bytes
        look(at + look_bytes, body)
        if kind == DATA:
            try:
                sizes = decode_data_head(content[head:body]).sizes
            except BadFrame:
                break
            if body_bytes < len(sizes) * limits.heads_batch_bytes_min:
                return None
            position = body
            for size in sizes:
                look(position, position + HEADER_BYTES)
                position += size
        at = body + body_bytes
        if kind == COMMIT:
            at += pad_to_sector(at)
    return content
