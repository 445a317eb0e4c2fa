"""Columns become the same batches whether C or Arrow joins their records."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mainstem.pipelines.codec import batch_encoding
from mainstem.pipelines.codec.batch_encoding import Rows, encode_batches
from tests.support.both_ways import both_ways

COMPILED, PYTHON = both_ways("mainstem.pipelines.codec.record_join")

TEXTS = st.none() | st.binary(max_size=300)
HEADERS = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=200)}), max_size=3
)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 1 << 41), HEADERS), min_size=1, max_size=40)
HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@given(ROWS, st.sets(st.integers(1, 39)), st.booleans(), st.integers(0, 2))
def test_batches_are_the_same(given_rows, cuts, with_headers, skip):
    assert COMPILED.AVAILABLE
    assert not PYTHON.AVAILABLE
    padded = [(b"x", b"yy", 1, None)] * skip + given_rows  # columns may be slices of longer ones
    key, value, time, header = zip(*padded, strict=True)
    rows = Rows(
        pa.array(key, pa.large_binary())[skip:],
        pa.array(value, pa.large_binary())[skip:],
        np.array(time[skip:], np.int64),
        pa.array(header, HEADER_TYPE)[skip:] if with_headers else None,
    )
    firsts = np.array([0, *sorted(cut for cut in cuts if cut < len(given_rows))])
    positions = [100 * number for number in range(len(firsts))]
    found = []
    for module in (COMPILED, PYTHON):
        with mock.patch.object(batch_encoding, "AVAILABLE", module.AVAILABLE):
            found.append([bytes(batch) for batch in encode_batches(rows, firsts, positions, 0)])
    assert found[0] == found[1]
