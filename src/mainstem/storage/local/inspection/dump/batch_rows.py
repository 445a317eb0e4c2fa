"""Batches and their records as rows."""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.model.errors import InvalidBatch
from mainstem.storage.contract import Buffer
from mainstem.storage.local.inspection.dump.printable import show_bytes
from mainstem.storage.local.inspection.dump.rows import AnyRow, BatchRow, RecordRow, StateRow, TroubleRow
from mainstem.storage.local.inspection.dump.scope_words import explain_item
from mainstem.storage.local.inspection.dump.selection import Selection
from mainstem.wire.compression import Compression
from mainstem.wire.record_batch import BatchHeader, decode_marker, decode_records, read_header


def batch_rows(
    file: str, log: int, batch: Buffer, position: int, selection: Selection, source: tuple[int, int] | None = None
) -> Iterator[AnyRow]:
    """A batch that carries the offsets of this log, and where wanted its records."""
    header = read_header(batch)
    if not selection.wants_batch(log, header.next_offset):
        return
    yield _batch_row(log, header, batch, position, source)
    if not selection.records:
        return
    try:
        records = decode_records(batch)
    except InvalidBatch as error:
        yield TroubleRow(file, position, f"records cannot be read: {error}", (log,))
        return
    for offset, timestamp_ms, key, value, headers in records:
        if selection.wants_offsets(offset + 1):
            yield RecordRow(
                log,
                offset,
                timestamp_ms,
                show_bytes(key, selection.width),
                show_bytes(value, selection.width),
                [(name, show_bytes(data, selection.width)) for name, data in headers],
            )


def _batch_row(log: int, header: BatchHeader, batch: Buffer, position: int, source: tuple[int, int] | None) -> BatchRow:
    produced = header.producer_id >= 0
    return BatchRow(
        log,
        header.base_offset,
        header.next_offset,
        position,
        header.size,
        header.record_count,
        header.max_timestamp,
        header.crc,
        compression=_codec_name(header.compression),
        producer=header.producer_id if produced else None,
        epoch=header.producer_epoch if produced else None,
        sequence=header.base_sequence if produced and not header.is_control else None,
        transactional=header.is_transactional,
        marker=_marker_name(batch) if header.is_control else None,
        delete_horizon_ms=header.delete_horizon_ms,
        source=source,
    )


def _codec_name(codec: int) -> str | None:
    try:
        return Compression(codec).name.lower() if codec else None
    except ValueError:
        return f"codec {codec}"


def _marker_name(batch: Buffer) -> str:
    try:
        return "commit" if decode_marker(batch) else "abort"
    except InvalidBatch:
        return "control"


def state_row(scope: str, key: bytes, value: bytes | None, selection: Selection) -> StateRow:
    """An item of state."""
    meaning = explain_item(scope, key, value)
    return StateRow(
        scope,
        show_bytes(key, selection.width),
        show_bytes(value, selection.width),
        None if meaning is None else meaning.log,
        None if meaning is None else meaning.facts,
    )
