"""The v2 batch: round trips, what check_batch refuses, truncations and garbage."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainstem.model.errors import CorruptBatch, InvalidBatch
from mainstem.wire import record_batch as rb
from mainstem.wire.errors import (
    BatchTruncated,
    InvalidProducerFields,
    InvalidRecordCount,
    MalformedRecords,
    UnknownCompression,
    UnsupportedMagic,
)
from mainstem.wire.record_batch.encoding import seal_batch
from tests.support.record_strategies import CODECS, INT64, record_lists

ONE = rb.Record(0, 1_700_000_000_000, b"key", b"value", (("name", b"content"), ("none", None)))


def batch_of(count: int, **fields: object) -> bytearray:
    return rb.encode_batch([ONE._replace(offset=offset) for offset in range(count)], **fields)  # type: ignore[arg-type]


def altered(batch: bytearray, at: int, size: int, value: int) -> bytearray:
    """The batch with one field changed and a checksum that fits."""
    changed = bytearray(batch)
    changed[at : at + size] = value.to_bytes(size, "big", signed=True)
    seal_batch(changed)
    return changed


@given(records=record_lists(base_offset=1000), codec=CODECS)
def test_records_round_trip(records: list[rb.Record], codec: int) -> None:
    batch = rb.encode_batch(records, base_offset=1000, compression=codec)
    assert rb.decode_records(batch) == records
    assert rb.decode_keys(batch) == [(r.offset, r.timestamp_ms, r.key, r.value is None) for r in records]
    header = rb.check_stored_batch(batch)
    assert header.compression == codec
    assert header.last_offset == records[-1].offset
    assert header.record_count == len(records)
    assert header.max_timestamp == max(r.timestamp_ms for r in records)
    assert header.size == len(batch)


@given(records=record_lists(times=INT64, size_max=4))
@example(records=[rb.Record(0, -(1 << 63), None, None), rb.Record(1, (1 << 63) - 1, None, None)])
def test_any_timestamp_survives(records: list[rb.Record]) -> None:
    assert rb.decode_records(rb.encode_batch(records)) == records


@given(
    producer_id=st.integers(0, (1 << 63) - 1),
    producer_epoch=st.integers(0, 32767),
    base_sequence=st.integers(0, (1 << 31) - 1),
    leader_epoch=st.integers(-1, (1 << 31) - 1),
    transactional=st.booleans(),
    base_offset=st.integers(0, 1 << 60),
)
def test_fields_round_trip(
    producer_id: int, producer_epoch: int, base_sequence: int, leader_epoch: int, transactional: bool, base_offset: int
) -> None:
    batch = rb.encode_batch(
        [ONE._replace(offset=base_offset)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
        transactional=transactional,
    )
    header = rb.check_batch(batch)
    assert header == rb.read_header(b"##" + batch, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        producer_id,
        producer_epoch,
        base_sequence,
    )
    assert (header.base_offset, header.leader_epoch) == (base_offset, leader_epoch)
    assert header.is_transactional is transactional
    assert not header.is_control
    assert header.next_offset == base_offset + 1


def test_field_positions_are_those_of_the_struct() -> None:
    values = [101, 102, 103, 2, 105, 106, 107, 108, 109, 110, 111, 112, 113]
    raw = rb.HEADER.pack(*values)
    positions = {
        rb.BASE_OFFSET_AT: 101,
        rb.BATCH_LENGTH_AT: 102,
        rb.LEADER_EPOCH_AT: 103,
        rb.CRC_AT: 105,
        rb.ATTRIBUTES_AT: 106,
        rb.LAST_OFFSET_DELTA_AT: 107,
        rb.BASE_TIMESTAMP_AT: 108,
        rb.MAX_TIMESTAMP_AT: 109,
        rb.PRODUCER_ID_AT: 110,
        rb.PRODUCER_EPOCH_AT: 111,
        rb.BASE_SEQUENCE_AT: 112,
        rb.RECORD_COUNT_AT: 113,
    }
    ends = [*sorted(positions)[1:], rb.HEADER_BYTES]
    ends[2] = rb.MAGIC_AT  # which stands between leader epoch and checksum
    for (start, value), end in zip(sorted(positions.items()), ends, strict=True):
        assert int.from_bytes(raw[start:end], "big") == value
    assert raw[rb.MAGIC_AT] == rb.MAGIC
    assert rb.HEADER_BYTES == 61


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = rb.encode_batch([ONE, ONE._replace(offset=1, timestamp_ms=5)], log_append_time_ms=77)
    assert [r.timestamp_ms for r in rb.decode_records(batch)] == [77, 77]
    assert [fact[1] for fact in rb.decode_keys(batch)] == [77, 77]


def test_delete_horizon_is_the_base_that_deltas_are_relative_to() -> None:
    batch = rb.encode_batch([ONE], base_timestamp=ONE.timestamp_ms + 86_400_000, delete_horizon=True)
    header = rb.check_batch(batch)
    assert header.delete_horizon_ms == ONE.timestamp_ms + 86_400_000
    assert header.max_timestamp == ONE.timestamp_ms
    assert rb.decode_records(batch) == [ONE]
    assert rb.check_batch(rb.encode_batch([ONE])).delete_horizon_ms is None


@pytest.mark.parametrize("codec", range(5))
def test_an_empty_batch_keeps_its_offsets(codec: int) -> None:
    batch = rb.encode_batch([], base_offset=40, last_offset_delta=9, compression=codec, producer_id=3, base_sequence=5)
    assert len(batch) == rb.HEADER_BYTES
    assert rb.check_stored_batch(batch).next_offset == 50
    assert rb.decode_records(batch) == []
    with pytest.raises(InvalidRecordCount):
        rb.check_batch(batch)


@pytest.mark.parametrize(
    ("at", "size", "value", "error"),
    [
        (rb.MAGIC_AT, 1, 1, UnsupportedMagic),
        (rb.MAGIC_AT, 1, 0, UnsupportedMagic),
        (rb.BATCH_LENGTH_AT, 4, 0, InvalidBatch),
        (rb.BATCH_LENGTH_AT, 4, -1, InvalidBatch),
        (rb.BATCH_LENGTH_AT, 4, 1 << 30, BatchTruncated),
        (rb.ATTRIBUTES_AT, 2, 5, UnknownCompression),
        (rb.ATTRIBUTES_AT, 2, 7, UnknownCompression),
        (rb.RECORD_COUNT_AT, 4, 0, InvalidRecordCount),
        (rb.RECORD_COUNT_AT, 4, -1, InvalidRecordCount),
        (rb.RECORD_COUNT_AT, 4, 4, InvalidRecordCount),
        (rb.RECORD_COUNT_AT, 4, (1 << 31) - 1, InvalidRecordCount),
        (rb.LAST_OFFSET_DELTA_AT, 4, 1, InvalidRecordCount),
        (rb.LAST_OFFSET_DELTA_AT, 4, -1, InvalidRecordCount),
        (rb.PRODUCER_ID_AT, 8, 9, InvalidProducerFields),
    ],
)
def test_a_lying_header_is_refused(at: int, size: int, value: int, error: type[InvalidBatch]) -> None:
    with pytest.raises(error):
        rb.check_batch(altered(batch_of(3), at, size, value))


def test_counts_that_cannot_fit_are_refused_before_anything_is_decoded() -> None:
    lie = altered(altered(batch_of(3), rb.RECORD_COUNT_AT, 4, 1 << 30), rb.LAST_OFFSET_DELTA_AT, 4, (1 << 30) - 1)
    for refuse in (rb.check_batch, rb.decode_records, rb.decode_keys, lambda b: rb.rewrite_batch(b, {0})):
        with pytest.raises(InvalidRecordCount):
            refuse(lie)


def test_any_changed_byte_under_the_checksum_is_noticed() -> None:
    batch = batch_of(2)
    for position in range(rb.CRC_AT, len(batch)):
        changed = bytearray(batch)
        changed[position] ^= 0x01
        with pytest.raises(InvalidBatch):
            rb.check_batch(changed)
    changed = bytearray(batch)
    changed[-1] ^= 0xFF
    with pytest.raises(CorruptBatch):
        rb.check_batch(changed)


READERS: list[Callable[[bytes | bytearray], object]] = [
    rb.read_header,
    rb.check_batch,
    rb.check_stored_batch,
    rb.decode_records,
    rb.decode_keys,
    rb.decode_marker,
    lambda data: list(rb.batches_in(data)),
    lambda data: rb.rewrite_batch(data, lambda offset: True),
    lambda data: rb.rewrite_batch(data, lambda offset: True, 5),
]


@pytest.mark.parametrize("codec", range(5))
def test_every_truncation_is_a_typed_error(codec: int) -> None:
    batch = bytes(batch_of(3, compression=codec))
    for cut in range(len(batch)):
        for read in READERS[1:]:
            if read is not READERS[6] or cut:
                with pytest.raises(InvalidBatch):
                    read(batch[:cut])


@pytest.mark.parametrize("codec", range(5))
def test_every_truncation_of_the_records_is_a_typed_error(codec: int) -> None:
    """The header agrees with the shorter body, so that only the records themselves can tell."""
    batch = batch_of(3, compression=codec)
    for cut in range(rb.HEADER_BYTES, len(batch)):
        shorter = altered(batch[:cut], rb.BATCH_LENGTH_AT, 4, cut - rb.LOG_OVERHEAD)
        for read in (rb.decode_records, rb.decode_keys, READERS[7], READERS[8]):
            with pytest.raises(InvalidBatch):
                read(shorter)


@settings(max_examples=settings().max_examples * 8)
@given(data=st.data(), codec=CODECS)
def test_garbage_never_escapes_as_another_error(data: st.DataObject, codec: int) -> None:
    batch = batch_of(data.draw(st.integers(1, 4)), compression=codec)
    for _ in range(data.draw(st.integers(1, 6))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        batch[rb.BATCH_LENGTH_AT : rb.BATCH_LENGTH_AT + 4] = (len(batch) - rb.LOG_OVERHEAD).to_bytes(4, "big")
        seal_batch(batch)
    for read in READERS:
        try:
            read(bytes(batch))
        except InvalidBatch:
            pass


@settings(max_examples=settings().max_examples * 6)
@given(body=st.binary(max_size=120), count=st.integers(0, 20), spread=st.integers(0, 300))
def test_garbage_records_never_escape_as_another_error(body: bytes, count: int, spread: int) -> None:
    batch = rb.encode_batch([], last_offset_delta=count + spread - 1)
    batch = altered(batch + body, rb.BATCH_LENGTH_AT, 4, rb.HEADER_BYTES + len(body) - rb.LOG_OVERHEAD)
    batch = altered(batch, rb.RECORD_COUNT_AT, 4, count)
    outcomes: list[list[object] | None] = []
    for read in (rb.decode_records, rb.decode_keys):
        try:
            outcomes.append([record[:3] for record in read(batch)])
        except InvalidBatch:
            outcomes.append(None)
    # keys are read without looking at headers, so they may be read from more batches, never otherwise
    assert outcomes[0] is None or outcomes[0] == outcomes[1]


@given(st.binary(max_size=300))
def test_random_bytes_never_escape_as_another_error(garbage: bytes) -> None:
    for read in READERS:
        try:
            read(garbage)
        except InvalidBatch:
            pass


def test_offsets_inside_must_rise_and_stay_within_the_range() -> None:
    records = [ONE, ONE._replace(offset=5)]
    with pytest.raises(MalformedRecords):
        rb.decode_records(altered(rb.encode_batch(records), rb.LAST_OFFSET_DELTA_AT, 4, 4))
    twice = rb.encode_batch([ONE]) + rb.encode_batch([ONE])[rb.HEADER_BYTES :]
    twice = altered(altered(twice, rb.RECORD_COUNT_AT, 4, 2), rb.LAST_OFFSET_DELTA_AT, 4, 1)
    twice = altered(twice, rb.BATCH_LENGTH_AT, 4, len(twice) - rb.LOG_OVERHEAD)
    rb.check_batch(twice)
    for read in (rb.decode_records, rb.decode_keys, READERS[7]):
        with pytest.raises(MalformedRecords):
            read(twice)


def test_header_names_that_are_not_utf8_are_read_with_replacement() -> None:
    batch = rb.encode_batch([ONE._replace(headers=(("ab", b""),))])
    at = batch.index(b"ab")
    batch[at] = 0xFF
    assert rb.decode_records(batch)[0].headers == (("\N{REPLACEMENT CHARACTER}b", b""),)


@given(st.lists(record_lists(size_max=5), max_size=5))
def test_batches_are_found_one_after_another(lists: list[list[rb.Record]]) -> None:
    batches = [rb.encode_batch(records) for records in lists]
    joined = b"".join(batches)
    assert [joined[at : at + size] for at, size in rb.batches_in(joined)] == batches
    if batches:
        with pytest.raises(InvalidBatch):
            list(rb.batches_in(joined + b"\0"))


def test_views_and_mutable_buffers_are_read_alike() -> None:
    batch = batch_of(3)
    for buffer in (bytes(batch), batch, memoryview(batch), memoryview(bytes(batch)).toreadonly()):
        assert rb.check_batch(buffer).record_count == 3
        assert len(rb.decode_records(buffer)) == 3
    # nothing keeps a view on it: it can still be resized
    batch.append(0)


@given(records=record_lists(base_offset=1000), codec=CODECS, first=st.integers(990, 1050))
def test_records_from_an_offset_on_are_the_last_of_all(records: list[rb.Record], codec: int, first: int) -> None:
    batch = rb.encode_batch(records, base_offset=1000, compression=codec)
    found = rb.decode_records(batch, first=first)
    wanted = [record for record in records if record.offset >= first]
    has_gaps = records[-1].offset - 1000 + 1 != len(records)
    assert found == (records if has_gaps or not wanted else wanted)
