"""Neighbouring blocks are read and checked together, and every bad one is found."""

from __future__ import annotations

import random
from array import array

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mainstem.storage.local.run_blocks import bad_block, neighbours_end

# Runs of equal sizes are what the compiled check takes three at a time.
SIZES = st.lists(st.tuples(st.integers(0, 70), st.integers(1, 5)), min_size=1, max_size=6).map(
    lambda runs: [size for size, count in runs for _ in range(count)]
)


def blocks_of(sizes: list[int], seed: int = 0) -> tuple[bytearray, array[int], array[int]]:
    rng = random.Random(seed)
    pieces = [rng.randbytes(size) for size in sizes]
    return bytearray(b"".join(pieces)), array("I", sizes), array("I", map(crc32c, pieces))


@given(SIZES, st.data())
def test_blocks_match_their_checksums_and_one_flipped_bit_is_found_in_its_block(sizes, data):
    content, size_column, crcs = blocks_of(sizes)
    first = data.draw(st.integers(0, len(sizes) - 1))
    stop = data.draw(st.integers(first, len(sizes)))
    part = content[sum(sizes[:first]) : sum(sizes[:stop])]
    assert bad_block(memoryview(part), size_column, crcs, first, stop) == -1
    if part:
        at = data.draw(st.integers(0, len(part) - 1))
        part[at] ^= 1 << data.draw(st.integers(0, 7))
        block, end = first, sizes[first]
        while at >= end:
            block += 1
            end += sizes[block]
        assert bad_block(memoryview(part).toreadonly(), size_column, crcs, first, stop) == block


@pytest.mark.parametrize("wrong", range(7))
def test_a_wrong_checksum_is_found(wrong):
    content, sizes, crcs = blocks_of([64 << 10] * 7)
    crcs[wrong] ^= 1
    assert bad_block(memoryview(content), sizes, crcs, 0, 7) == wrong


def test_neighbours_end_at_a_gap_and_at_the_limit():
    positions, sizes = array("Q", [512, 612, 712, 900, 1000]), array("I", [100, 100, 100, 100, 50])
    assert neighbours_end(positions, sizes, 0, 5, 1 << 40) == 3
    assert neighbours_end(positions, sizes, 0, 5, 200) == 2
    assert neighbours_end(positions, sizes, 0, 5, 199) == 1
    assert neighbours_end(positions, sizes, 0, 2, 1 << 40) == 2
    assert neighbours_end(positions, sizes, 3, 5, 150) == 5
    assert neighbours_end(positions, sizes, 0, 5, 1) == 1, "a block is taken however large it is"
