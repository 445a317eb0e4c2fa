"""Batches for the tests, and what is to be seen of them after reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crc32c import crc32c

from mainstem.storage.contract import Buffer, ReadResult
from mainstem.wire.compression import NONE
from mainstem.wire.record_batch import (
    CRC_AT,
    CRC_FROM,
    LEADER_EPOCH_AT,
    MAGIC_AT,
    Record,
    batches_in,
    check_stored_batch,
    decode_records,
    encode_batch,
    encode_marker,
    read_header,
)

NOW = 1_800_000_000_000
"""What the clock of the tests says at first."""
SECOND = 1_000
HOUR = 3_600_000
DAY = 24 * HOUR
SEQUENCE_WRAP = 1 << 31

Key = bytes | None
Value = bytes | None


def batch(*values: Value, time: int | Sequence[int] = NOW, **options: object) -> bytearray:
    """Records without a key, all of one time or each of its own."""
    return keyed(*((None, value) for value in values), time=time, **options)


def keyed(*pairs: tuple[Key, Value], time: int | Sequence[int] = NOW, **options: object) -> bytearray:
    """Records with a key; the value None deletes it."""
    times = [time] * len(pairs) if isinstance(time, int) else time
    base = options.get("base_offset", 0)
    records = [
        Record(base + number, when, key, value, ())
        for number, ((key, value), when) in enumerate(zip(pairs, times, strict=True))
    ]
    return encode_batch(records, **options)


def produced(
    producer: int,
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    transactional: bool = False,
    time: int = NOW,
    key: Key = None,
) -> bytearray:
    """A batch of an idempotent producer; the values name producer, epoch and sequence."""
    return keyed(
        *((key, b"%d/%d/%d" % (producer, epoch, (sequence + n) % SEQUENCE_WRAP)) for n in range(count)),
        time=time,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def marker(producer: int, *, commit: bool, epoch: int = 0, time: int = NOW) -> bytearray:
    """The control batch that ends a producer's transaction."""
    return encode_marker(producer, epoch, commit=commit, timestamp_ms=time)


def sized(size: int, *, time: int = NOW, fill: bytes = b"\xa5", compression: int = NONE) -> bytearray:
    """A batch of exactly `size` bytes, of one record."""
    length = size - len(batch(b""))
    made = batch(fill * length, time=time, compression=compression)
    while len(made) != size:
        length += size - len(made)
        made = batch(fill * length, time=time)
    return made


def resealed(content: Buffer) -> bytearray:
    """The same bytes with a checksum that fits them."""
    copy = bytearray(content)
    copy[CRC_AT:CRC_FROM] = crc32c(memoryview(copy)[CRC_FROM:]).to_bytes(4, "big")
    return copy


# --- what was read --------------------------------------------------------------------------------------------------


def split(buffers: Iterable[Buffer]) -> list[bytes]:
    """Each batch by itself; every one must be whole and good."""
    parts = []
    for buffer in buffers:
        view = memoryview(buffer)
        assert len(view) > 0, "an empty buffer holds no batch"
        for position, size in batches_in(view):
            part = bytes(view[position : position + size])
            check_stored_batch(part)
            parts.append(part)
    return parts


def records_of(buffers: Iterable[Buffer]) -> list[Record]:
    """The records with their offsets, control batches left out."""
    records: list[Record] = []
    for part in split(buffers):
        if not read_header(part).is_control:
            records.extend(decode_records(part))
    return records


def values_of(buffers: Iterable[Buffer]) -> list[bytes | None]:
    return [None if record.value is None else bytes(record.value) for record in records_of(buffers)]


def pairs_of(buffers: Iterable[Buffer]) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of each record."""
    return [
        (
            record.offset,
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
        )
        for record in records_of(buffers)
    ]


def bases_of(buffers: Iterable[Buffer]) -> list[int]:
    return [read_header(part).base_offset for part in split(buffers)]


def as_sent(stored: Buffer) -> bytes:
    """What a producer sent: all but the base offset and the leader epoch."""
    view = bytes(stored)
    return view[8:LEADER_EPOCH_AT] + view[MAGIC_AT:]


def delivered(result: ReadResult) -> list[bytes | None]:
    """What a careful reader delivers of a read: below the stable offset, without what was aborted."""
    values: list[bytes | None] = []
    for part in split(result.batches):
        header = read_header(part)
        if header.is_control:
            continue
        for record in decode_records(part):
            dropped = any(
                header.is_transactional
                and aborted.producer == header.producer_id
                and aborted.first <= record.offset <= aborted.last
                for aborted in result.aborted
            )
            if record.offset < result.stable and not dropped:
                values.append(bytes(record.value) if record.value is not None else None)
    return values
