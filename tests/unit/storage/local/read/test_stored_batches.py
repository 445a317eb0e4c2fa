"""Batches of the write-ahead log are what they must be, or the first that is not is found."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.storage.local.wal.stored_batches import ANY_BASE, bad_batch
from mainstem.wire.record_batch import encode_batch, place_batch


def batches_of(sizes: list[int]) -> tuple[bytearray, array[int], array[int]]:
    """Their bytes, sizes and base offsets."""
    content = bytearray()
    lengths, bases = array("I"), array("q")
    for number, size in enumerate(sizes):
        batch = encode_batch([(0, 1_000, None, bytes([number]) * size, ())])
        place_batch(batch, 0, 10 * number, 0)
        content += batch
        lengths.append(len(batch))
        bases.append(10 * number)
    return content, lengths, bases


SIZES = st.lists(st.integers(0, 600), min_size=1, max_size=8)
UNCHECKED = (12, 13, 14, 15)
"""The leader epoch: outside the checksum, and nobody's business here."""


@given(SIZES, st.data())
def test_a_flipped_bit_is_found_in_its_batch(sizes, data):
    content, lengths, bases = batches_of(sizes)
    assert bad_batch(memoryview(content), lengths, bases) == -1
    number = data.draw(st.integers(0, len(sizes) - 1))
    at = data.draw(st.integers(0, lengths[number] - 1).filter(lambda at: at not in UNCHECKED))
    content[sum(lengths[:number]) + at] ^= 1 << data.draw(st.integers(0, 7))
    assert bad_batch(memoryview(content).toreadonly(), lengths, bases) == number


def test_a_reference_may_have_any_base_and_nothing_else_wrong():
    content, lengths, bases = batches_of([5, 5])
    bases[1] = 77
    assert bad_batch(memoryview(content), lengths, bases) == 1
    bases[1] = ANY_BASE
    assert bad_batch(memoryview(content), lengths, bases) == -1
    content[-1] ^= 1
    assert bad_batch(memoryview(content), lengths, bases) == 1


@pytest.mark.parametrize("missing", [1, 60, 70])
def test_one_that_is_cut_short_is_bad(missing):
    content, lengths, bases = batches_of([5, 5])
    assert bad_batch(memoryview(content)[:-missing], lengths, bases) == 1


def test_one_that_is_too_short_to_be_one_is_bad():
    assert bad_batch(memoryview(bytes(20)), array("I", [20]), array("q", [0])) == 0
