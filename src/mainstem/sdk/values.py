"""Values as a batch that can be sent, and where batches that were read end."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mainstem.wire.record_batch import Record, batches_in, encode_batch, read_header


def encode_values(values: Sequence[bytes]) -> bytearray:
    """One batch without keys, of now."""
    now_ms = int(time.time() * 1000)
    return encode_batch([Record(offset, now_ms, None, value) for offset, value in enumerate(values)])


def end_of(batches: memoryview) -> int:
    """The offset behind the last of these batches; 0 without any."""
    end = 0
    for position, _ in batches_in(batches):
        end = read_header(batches, position).next_offset
    return end
