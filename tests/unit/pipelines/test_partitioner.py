"""Rows go where a Kafka client would have sent them."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.pipelines.codec.partitioner import StickyPartition, murmur2, partitions_by_key

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as kafka_murmur2


@given(keys=st.lists(st.binary(max_size=40), max_size=30), skip=st.integers(0, 2), large=st.booleans())
def test_the_hash_is_that_of_kafka(keys: list[bytes], skip: int, large: bool) -> None:
    kind = pa.large_binary() if large else pa.binary()
    column = pa.array([b"pad"] * skip + keys, kind)[skip:]
    assert [int(found) for found in murmur2(column)] == [kafka_murmur2(key) & 0xFFFFFFFF for key in keys]


@pytest.mark.parametrize(("key", "found"), [(b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107)])
def test_values_that_kafkas_own_tests_have(key: bytes, found: int) -> None:
    assert murmur2(pa.array([key]))[0] == np.uint32(found & 0xFFFFFFFF)


def test_the_partition_is_never_negative() -> None:
    keys = [b"%d" % number for number in range(1_000)]
    assert partitions_by_key(pa.array(keys), 7).tolist() == [(kafka_murmur2(key) & 0x7FFFFFFF) % 7 for key in keys]


def test_rows_without_a_key_stay_until_a_batch_is_full_and_then_move_on() -> None:
    sticky = StickyPartition(1, 100)
    assert sticky.take(np.array([40, 40, 40, 40]), 3).tolist() == [1, 1, 1, 2]
    assert sticky.take(np.array([40, 90, 200]), 3).tolist() == [2, 0, 0]
    assert sticky.take(np.array([1]), 3).tolist() == [2]
