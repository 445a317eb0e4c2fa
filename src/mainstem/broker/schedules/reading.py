"""Records of bucket logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mainstem.storage.contract import Buffer
from mainstem.wire.record_batch import Record, batches_in, decode_records


def records_in(buffers: Sequence[Buffer]) -> Iterator[Record]:
    """What was read, record by record."""
    for buffer in buffers:
        view = memoryview(buffer)
        for position, size in batches_in(view):
            yield from decode_records(view[position : position + size])
