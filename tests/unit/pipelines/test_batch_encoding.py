"""Batches made of columns read as the rows they were made of."""

from random import Random
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.pipelines.codec import batch_encoding, record_join
from mainstem.pipelines.codec.batch_encoding import Rows, encode_batches, row_sizes
from mainstem.wire.compression import Compression
from mainstem.wire.record_batch import check_batch, decode_records

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW_MS = 1_700_000_000_000

texts = st.none() | st.binary(max_size=300)
headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=200)}), max_size=3
)
times = st.integers(0, 2**41) | st.just(NOW_MS)
rows = st.tuples(texts, texts, times, headers)


def columns(given: list[tuple], *, with_headers: bool = True, skip: int = 0) -> Rows:
    """Arrow columns, perhaps as a slice of longer ones."""
    padded = [(b"xx", b"yyy", 1, [{"key": "z", "value": b"z"}])] * skip + given
    key, value, time, header = zip(*padded, strict=True)
    return Rows(
        pa.array(key, pa.large_binary())[skip:],
        pa.array(value, pa.large_binary())[skip:],
        np.array(time[skip:], np.int64),
        pa.array(header, HEADERS)[skip:] if with_headers else None,
    )


@given(
    given_rows=st.lists(rows, min_size=1, max_size=40),
    cuts=st.sets(st.integers(1, 39)),
    compression=st.sampled_from(Compression),
    with_headers=st.booleans(),
    skip=st.integers(0, 2),
    joined_by_arrow=st.booleans(),
)
def test_batches_read_as_their_rows(
    given_rows: list[tuple], cuts: set[int], compression: int, with_headers: bool, skip: int, joined_by_arrow: bool
) -> None:
    firsts = [0, *sorted(cut for cut in cuts if cut < len(given_rows))]
    positions = [100 * number for number in range(len(firsts))]
    made = columns(given_rows, with_headers=with_headers, skip=skip)
    with mock.patch.object(batch_encoding, "AVAILABLE", record_join.AVAILABLE and not joined_by_arrow):
        batches = encode_batches(made, np.array(firsts), positions, compression)
    sizes = row_sizes(made)
    bounds = [*firsts, len(given_rows)]
    for batch, position, first, end in zip(batches, positions, bounds, bounds[1:], strict=False):
        header = check_batch(batch)
        assert header.base_offset == position
        assert header.compression == compression
        assert header.max_timestamp == max(time for _, _, time, _ in given_rows[first:end])
        assert [(*record[:4], list(record.headers)) for record in decode_records(batch)] == [
            (
                position + delta,
                time,
                key,
                value,
                [(h["key"], h["value"]) for h in of_row or ()] if with_headers else [],
            )
            for delta, (key, value, time, of_row) in enumerate(given_rows[first:end])
        ]
        if not compression:
            assert len(batch) - 61 <= sizes[first:end].sum()


@pytest.mark.skipif(not record_join.AVAILABLE, reason="Arrow joins what is in order")
@given(
    given_rows=st.lists(rows, min_size=1, max_size=40),
    cut=st.integers(1, 39),
    compression=st.sampled_from((Compression.NONE, Compression.GZIP)),
    skip=st.integers(0, 2),
    chance=st.randoms(use_true_random=False),
)
def test_keys_and_values_are_found_at_their_places(
    given_rows: list[tuple], cut: int, compression: int, skip: int, chance: Random
) -> None:
    places = list(range(len(given_rows)))
    chance.shuffle(places)
    firsts = np.array([0, *([cut] if cut < len(given_rows) else [])])
    lying = columns(given_rows, skip=skip)
    ordered = columns([given_rows[place] for place in places])
    shuffled = ordered._replace(key=lying.key, value=lying.value, places=np.array(places))
    assert row_sizes(shuffled).tolist() == row_sizes(ordered).tolist()
    positions = [7] * len(firsts)
    assert [bytes(batch) for batch in encode_batches(shuffled, firsts, positions, compression)] == [
        bytes(batch) for batch in encode_batches(ordered, firsts, positions, compression)
    ]


def test_many_rows_in_one_batch() -> None:
    count = 70_000
    made = columns([(b"%d" % n, b"v" * (n % 200), NOW_MS + n * 1_000, None) for n in range(count)], with_headers=False)
    (batch,) = encode_batches(made, np.array([0]), [0], 0)
    records = decode_records(batch)
    assert [record.offset for record in records] == list(range(count))
    assert records[-1].timestamp_ms == NOW_MS + (count - 1) * 1_000
    assert records[199].value == b"v" * 199
