"""Our CRC32C beside that of a library, over every length at which another way of summing begins."""

from __future__ import annotations

import functools
import random

import crc32c as library
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.wire.checksum import STEPPED_BYTES_MAX, UNLOCKED_BYTES_MIN, crc32c, joined_crc32c

CONTENT = random.Random(32).randbytes(UNLOCKED_BYTES_MIN + 4096)


def test_the_known_sum_of_nine_digits() -> None:
    assert crc32c(b"123456789") == 0xE306_9283


def test_every_length_up_to_a_few_strides() -> None:
    for size in range(2_048):
        assert crc32c(CONTENT[:size]) == library.crc32c(CONTENT[:size]), size


@given(st.integers(0, 64), st.integers(0, len(CONTENT)), st.integers(0, 0xFFFF_FFFF))
def test_pieces_anywhere_in_memory_behind_any_sum(first: int, size: int, before: int) -> None:
    piece = memoryview(CONTENT)[first : first + size]
    assert crc32c(piece, before) == library.crc32c(piece, before)


@pytest.mark.parametrize("size", [STEPPED_BYTES_MAX, STEPPED_BYTES_MAX + 1, UNLOCKED_BYTES_MIN - 1, UNLOCKED_BYTES_MIN])
def test_a_sum_goes_on_where_another_ended(size: int) -> None:
    for cut in (0, 1, 511, 512, 513, size - 1, size):
        assert crc32c(CONTENT[cut:size], crc32c(CONTENT[:cut])) == library.crc32c(CONTENT[:size])


def test_what_is_not_bytes_is_refused() -> None:
    with pytest.raises(TypeError):
        crc32c("text")  # type: ignore[arg-type]


@given(st.binary(max_size=70), st.integers(0, len(CONTENT)))
def test_the_sum_of_two_pieces_follows_from_those_of_both(first: bytes, size: int) -> None:
    second = CONTENT[:size]
    assert joined_crc32c(crc32c(first), crc32c(second), size) == library.crc32c(first + second)


@pytest.mark.parametrize("size", [1 << 20, (1 << 29) - 1, 1 << 29, (1 << 32) + 5])
def test_pieces_of_any_size_can_be_joined(size: int) -> None:
    # Of zeros, whose sum can be known without them: they are joined in halves.
    @functools.cache
    def zeros(count: int) -> int:
        if count <= 1024:
            return library.crc32c(bytes(count))
        half = count // 2
        return joined_crc32c(zeros(half), zeros(count - half), count - half)

    before = library.crc32c(b"before")
    assert joined_crc32c(before, zeros(size), size) == joined_crc32c(
        joined_crc32c(before, zeros(size - 7), size - 7), zeros(7), 7
    )
