"""The vectorised decoders against the one that reads record by record."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import InvalidBatch
from mainstem.pipelines.codec.batch_decoding import DECODERS, StoredBatch, decode_batches
from mainstem.pipelines.codec.record_positions import read_varints
from mainstem.pipelines.codec.record_walk import walk_records
from mainstem.wire.errors import MalformedRecords
from mainstem.wire.record_batch import HEADER_BYTES, Record, decode_records, encode_batch, read_header
from mainstem.wire.varint import encode_varlong
from tests.support.record_strategies import CODECS, INT64, TIMES, record_lists

ALL = {"first": 0, "end": 1 << 62, "with_headers": True}


def stored(batch: bytearray) -> StoredBatch:
    return StoredBatch(read_header(batch), memoryview(batch))


def decoded(batches: list[StoredBatch], decoder: str, **asked: Any) -> list[Record]:
    records: list[Record] = []
    for columns in decode_batches(batches, decoder=decoder, **{**ALL, **asked}):
        assert columns.headers is not None
        for offset, timestamp, key, value, headers in zip(
            columns.offsets.tolist(),
            columns.timestamps_ms.tolist(),
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            columns.headers.to_pylist(),
            strict=True,
        ):
            pairs = tuple((one["key"], one["value"]) for one in headers or ())
            records.append(Record(offset, timestamp, key, value, pairs))
    return records


@st.composite
def batch_lists(draw: st.DrawFn) -> list[bytearray]:
    batches, base = [], 0
    for _ in range(draw(st.integers(1, 4))):
        records = draw(record_lists(base_offset=base))
        appended = draw(st.none() | TIMES)
        batches.append(encode_batch(records, base_offset=base, compression=draw(CODECS), log_append_time_ms=appended))
        base = records[-1].offset + 1
    return batches


@pytest.mark.parametrize("decoder", DECODERS)
@given(batches=batch_lists())
def test_decodes_as_the_plain_decoder(decoder: str, batches: list[bytearray]) -> None:
    wanted = [record for batch in batches for record in decode_records(batch)]
    assert decoded([stored(batch) for batch in batches], decoder) == wanted


@pytest.mark.parametrize("decoder", DECODERS)
@given(batches=batch_lists(), data=st.data())
def test_trims_to_the_range(decoder: str, batches: list[bytearray], data: st.DataObject) -> None:
    whole = [record for batch in batches for record in decode_records(batch)]
    first = data.draw(st.integers(0, whole[-1].offset + 1))
    end = data.draw(st.integers(first, whole[-1].offset + 2))
    wanted = [record for record in whole if first <= record.offset < end]
    assert decoded([stored(batch) for batch in batches], decoder, first=first, end=end) == wanted


@pytest.mark.parametrize("decoder", DECODERS)
@given(records=record_lists(size_max=5), data=st.data())
def test_wrong_bytes_are_refused_or_read_as_the_plain_decoder_does(
    decoder: str, records: list[Record], data: st.DataObject
) -> None:
    batch = encode_batch(records)
    at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
    batch[at] = data.draw(st.integers(0, 255))
    try:
        wanted = decode_records(batch)
    except InvalidBatch:
        wanted = None
    try:
        found = decoded([stored(batch)], decoder)
    except InvalidBatch:
        # it may be stricter about varints that are longer than they need to be, never more trusting
        return
    if wanted is not None:
        assert found == wanted


def test_a_record_count_that_lies() -> None:
    batch = encode_batch([(0, 0, b"k", b"v", ())])
    more = read_header(batch)._replace(record_count=2)
    none = read_header(batch)._replace(record_count=0)
    for decoder in DECODERS:
        for header in (more, none):
            with pytest.raises(MalformedRecords):
                decoded([StoredBatch(header, memoryview(batch))], decoder)


@pytest.mark.parametrize(
    "length", [b"\x80" * 5 + b"\x02", b"\xff" * 12, b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x03"]
)
def test_a_length_that_no_record_has(length: bytes) -> None:
    content = length + b"\0" * 8
    with pytest.raises(MalformedRecords):
        walk_records(content, 0, len(content), 2, [], [])


def test_many_batches_come_in_bounded_pieces() -> None:
    batch = stored(encode_batch([(index, 0, None, b"x" * 1_000, ()) for index in range(1_000)]))
    sizes = [len(columns.offsets) for columns in decode_batches([batch] * 20, decoder="numpy", **ALL)]  # type: ignore[arg-type]
    assert sum(sizes) == 20_000
    assert max(sizes) <= 9_000


@given(st.lists(INT64, min_size=1, max_size=20))
def test_varints(numbers: list[int]) -> None:
    out, starts = bytearray(), []
    for number in numbers:
        starts.append(len(out))
        encode_varlong(out, number)
    found, ends = read_varints(np.frombuffer(out, np.uint8), np.array(starts, np.int64))
    assert found.tolist() == numbers
    assert ends.tolist() == [*starts[1:], len(out)]
