from __future__ import annotations

import ctypes

import pytest

from mainstem.storage.local.read.buffers import AWAY, BUFFER_BYTES, BUFFERS_MAX, POOLED_BYTES_MIN, STEP, ReadBuffers


def test_a_small_read_holds_no_large_buffer() -> None:
    assert len(ReadBuffers().take(200, 0).obj) == 200


def test_a_buffer_is_used_again_when_nobody_looks_into_it() -> None:
    buffers = ReadBuffers()
    first = buffers.take(POOLED_BYTES_MIN, 0)
    kept = first[10:20].toreadonly()
    owner = id(first.obj)
    del first
    other = buffers.take(POOLED_BYTES_MIN, 0)
    assert id(other.obj) != owner
    del kept
    assert id(buffers.take(BUFFER_BYTES, 0).obj) == owner


def test_there_are_never_more_buffers_than_allowed() -> None:
    buffers = ReadBuffers()
    held = [buffers.take(POOLED_BYTES_MIN, 0) for _ in range(BUFFERS_MAX + 3)]
    assert [len(view.obj) for view in held[BUFFERS_MAX:]] == [POOLED_BYTES_MIN] * 3


@pytest.mark.parametrize("position", [0, 1, 63, 64, 65, 127, 128, 4_095, 70_000_001, (1 << 32) - 1])
@pytest.mark.parametrize("size", [POOLED_BYTES_MIN, BUFFER_BYTES])
def test_a_view_never_begins_a_few_bytes_behind_the_place_that_is_read(position: int, size: int) -> None:
    """As seen within a page: some processors copy several times slower there."""
    buffers = ReadBuffers()
    held = []
    for further in (0, STEP, 17 * STEP, 3):
        view = buffers.take(size, position + further)
        assert len(view) == size
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        assert (address - position - further) % STEP == AWAY
        held.append(view)
    assert len({id(view.obj) for view in held}) == len(held)
