"""The processor's own CRC32C and the library's."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.support.both_ways import both_ways

COMPILED, PYTHON = both_ways("mainstem.wire.checksum")
CONTENT = Random(7).randbytes(COMPILED.UNLOCKED_BYTES_MIN + 4096)
SUMS = st.integers(0, 0xFFFF_FFFF)
SIZES = (
    st.integers(0, 1100) | st.sampled_from((4095, 4096, 4097, 1 << 15, (1 << 15) - 1)) | st.integers(0, len(CONTENT))
)


@given(st.integers(0, 70), SIZES, SUMS, st.sampled_from((bytes, bytearray, memoryview)))
def test_a_piece_has_the_same_sum(first, size, before, kind):
    piece = kind(CONTENT[first : first + size])
    assert COMPILED.crc32c(piece, before) == PYTHON.crc32c(piece, before)


@given(SUMS, SUMS, st.integers(0, 1 << 40))
def test_sums_are_joined_the_same(first, second, size):
    assert COMPILED.joined_crc32c(first, second, size) == PYTHON.joined_crc32c(first, second, size)
