"""Markers, placing, log-append time, key compaction."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import CorruptBatch
from mainstem.wire import record_batch as rb
from mainstem.wire.errors import BatchTruncated, InvalidMarker
from tests.support.record_strategies import CODECS, record_lists

NOW = 1_700_000_000_000


@pytest.mark.parametrize("commit", [True, False])
def test_marker(commit: bool) -> None:
    marker = rb.encode_marker(12, 3, commit=commit, timestamp_ms=NOW, coordinator_epoch=9)
    header = rb.check_batch(marker)
    assert len(marker) == rb.MARKER_BYTES
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.max_timestamp) == (12, 3, -1, NOW)
    record = rb.decode_records(marker)[0]
    assert record.key == struct.pack(">hh", 0, commit)
    assert record.value == struct.pack(">hi", 0, 9)
    assert rb.decode_marker(marker) is commit


def test_what_is_no_marker() -> None:
    data = rb.encode_batch([rb.Record(0, NOW, b"\0\0\0\1", b"")])
    two = rb.encode_batch([rb.Record(0, NOW, b"\0\0\0\1", b""), rb.Record(1, NOW, b"\0\0\0\1", b"")], control=True)
    leader_change = rb.encode_batch([rb.Record(0, NOW, b"\0\0\0\2", b"")], control=True)
    short = rb.encode_batch([rb.Record(0, NOW, b"\0\0\0", b"")], control=True)
    keyless = rb.encode_batch([rb.Record(0, NOW, None, b"")], control=True)
    empty = rb.encode_batch([], control=True)
    for batch in (data, two, leader_change, short, keyless, empty):
        with pytest.raises(InvalidMarker):
            rb.decode_marker(batch)


@given(record_lists(), CODECS, st.integers(0, 1 << 60), st.integers(0, 1 << 30))
def test_placing_leaves_the_checksum_true(records: list[rb.Record], codec: int, base_offset: int, epoch: int) -> None:
    batch = b"##" + rb.encode_batch(records, compression=codec)
    buffer = bytearray(batch)
    rb.place_batch(buffer, 2, base_offset, epoch)
    header = rb.check_stored_batch(memoryview(buffer)[2:])
    assert (header.base_offset, header.leader_epoch) == (base_offset, epoch)
    assert [r.offset - base_offset for r in rb.decode_records(buffer[2:])] == [r.offset for r in records]


@given(record_lists(), CODECS, st.integers(0, 1 << 42))
def test_log_append_time(records: list[rb.Record], codec: int, now: int) -> None:
    batch = rb.encode_batch(records, compression=codec, producer_id=5, producer_epoch=1, base_sequence=0)
    rb.stamp_log_append_time(batch, now)
    header = rb.check_stored_batch(batch)
    assert header.is_log_append_time
    assert (header.max_timestamp, header.producer_id, header.compression) == (now, 5, codec)
    assert rb.decode_records(batch) == [r._replace(timestamp_ms=now) for r in records]


@given(record_lists(), CODECS, st.integers(0, 1 << 40), st.integers(0, 1 << 14), st.integers(0, (1 << 31) - 1))
def test_joining_a_transaction(records: list[rb.Record], codec: int, producer: int, epoch: int, sequence: int) -> None:
    batch = rb.encode_batch(records, compression=codec)
    rb.join_transaction(batch, producer, epoch, sequence)
    header = rb.check_stored_batch(batch)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer, epoch, sequence)
    assert header.compression == codec
    assert rb.decode_records(batch) == records


@given(record_lists(), st.data())
def test_joining_a_transaction_does_not_make_good_what_was_damaged(
    records: list[rb.Record], data: st.DataObject
) -> None:
    batch = rb.encode_batch(records)
    batch[data.draw(st.integers(rb.HEADER_BYTES, len(batch) - 1))] ^= data.draw(st.integers(1, 255))
    rb.join_transaction(batch, 1, 0, 0)
    with pytest.raises(CorruptBatch):
        rb.check_stored_batch(batch)


def test_log_append_time_needs_a_header() -> None:
    with pytest.raises(BatchTruncated):
        rb.stamp_log_append_time(bytearray(60), NOW)


@given(st.data(), record_lists(base_offset=70), CODECS, st.none() | st.integers(0, 1 << 42))
def test_compaction_keeps_offsets_and_fields(
    data: st.DataObject, records: list[rb.Record], codec: int, horizon: int | None
) -> None:
    kept = data.draw(st.sets(st.sampled_from([r.offset for r in records])))
    batch = rb.encode_batch(
        records,
        base_offset=70,
        compression=codec,
        producer_id=5,
        producer_epoch=2,
        base_sequence=11,
        leader_epoch=4,
        transactional=True,
    )
    before = rb.read_header(batch)
    rewritten = rb.rewrite_batch(batch, kept, horizon)
    if not kept:
        assert rewritten is None
        return
    assert rewritten is not None
    survivors = [r for r in records if r.offset in kept]
    assert rb.decode_records(rewritten) == survivors
    assert rewritten == rb.rewrite_batch(batch, kept.__contains__, horizon)
    after = rb.check_stored_batch(rewritten)
    assert after.delete_horizon_ms == horizon
    assert after.max_timestamp == max(r.timestamp_ms for r in survivors)
    untouched = ("base_offset", "last_offset_delta", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")
    assert [getattr(after, name) for name in untouched] == [getattr(before, name) for name in untouched]
    assert after.attributes & ~rb.DELETE_HORIZON == before.attributes


@given(record_lists(), CODECS)
def test_keeping_everything_changes_no_byte_of_an_uncompressed_batch(records: list[rb.Record], codec: int) -> None:
    batch = rb.encode_batch(records)
    assert rb.rewrite_batch(batch, lambda offset: True) == batch
    compressed = rb.encode_batch(records, compression=codec)
    again = rb.rewrite_batch(compressed, lambda offset: True)
    assert again is not None
    assert rb.decode_records(again) == records


@given(record_lists(), st.integers(0, 1 << 42), st.integers(0, 1 << 42))
def test_compacting_again_keeps_the_horizon(records: list[rb.Record], horizon: int, now: int) -> None:
    once = rb.rewrite_batch(rb.encode_batch(records), lambda offset: True, horizon)
    assert once is not None
    twice = rb.rewrite_batch(once, {records[-1].offset})
    assert twice is not None
    assert rb.read_header(twice).delete_horizon_ms == horizon
    assert rb.decode_records(twice) == records[-1:]


def test_compaction_keeps_log_append_time() -> None:
    records = [rb.Record(0, 5, b"a", b"1"), rb.Record(1, 6, b"b", b"2")]
    batch = rb.encode_batch(records, log_append_time_ms=NOW)
    rewritten = rb.rewrite_batch(batch, {0}, NOW + 50)
    assert rewritten is not None
    assert rb.decode_records(rewritten) == [records[0]._replace(timestamp_ms=NOW)]


def test_header_names_that_are_not_utf8_survive_compaction() -> None:
    batch = rb.encode_batch([rb.Record(0, NOW, b"k", b"v", (("ab", b""),)), rb.Record(1, NOW, b"k", b"v")])
    batch[batch.index(b"ab")] = 0xFF
    rewritten = rb.rewrite_batch(batch, {0})
    assert rewritten is not None
    assert b"\xffb" in rewritten


@pytest.mark.parametrize("before", range(5))
@pytest.mark.parametrize("after", range(5))
def test_another_compression_keeps_the_records(before: int, after: int) -> None:
    records = [(offset, 1_000 + offset, b"key", b"value " * 20, (("h", b"x"),)) for offset in range(5)]
    batch = rb.encode_batch(records, compression=before, producer_id=7, producer_epoch=1, base_sequence=3)
    changed = rb.recompress_batch(batch, after)
    header = rb.check_batch(changed)
    assert header.compression == after
    assert header[6:] == rb.check_batch(batch)[6:]
    assert rb.decode_records(changed) == rb.decode_records(batch)
