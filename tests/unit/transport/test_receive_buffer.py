"""Receive chunks: the stream is whole, kept slices are left alone, memory is given back."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from mainstem.transport.receive_buffer import (
    CHUNK_BYTES,
    KEPT_BYTES_MAX,
    POOLED_CHUNKS_MAX,
    ROOM_BYTES_MIN,
    WAITING_BYTES_MAX,
    ChunkPool,
    ReceiveBuffer,
    is_unused,
)


def receive(buffer: ReceiveBuffer, data: bytes, wanted: int = 1) -> None:
    """As the event loop does: as often as it takes."""
    while data:
        space = buffer.space(wanted)
        count = min(len(space), len(data))
        space[:count] = data[:count]
        del space
        buffer.received(count)
        data = data[count:]


PERIOD = bytes(index * 31 % 251 for index in range(251))


def pattern(start: int, size: int) -> bytes:
    """A stretch of a stream in which every position tells where it is."""
    begin = start % 251
    return (PERIOD * (size // 251 + 2))[begin : begin + size]


STEPS = st.tuples(
    st.integers(1, 90_000),  # bytes that come
    st.floats(0, 1),  # share of the unused that is then consumed
    st.booleans(),  # whether a slice of it is kept
    st.integers(1, 3 * CHUNK_BYTES),  # what the session wants
)


@given(steps=st.lists(STEPS, max_size=30))
def test_bytes_come_out_as_they_went_in_and_kept_slices_never_change(
    steps: list[tuple[int, float, bool, int]],
) -> None:
    buffer = ReceiveBuffer(ChunkPool())
    sent = consumed = 0
    kept: list[tuple[int, memoryview]] = []
    for size, share, keep, wanted in steps:
        receive(buffer, pattern(sent, size), wanted)
        sent += size
        view = buffer.view()
        assert not view.readonly
        assert bytes(view) == pattern(consumed, sent - consumed)
        count = int(len(view) * share)
        if keep:
            kept.append((consumed, view[:count]))
        del view
        buffer.consume(count)
        consumed += count
        buffer.settle()
        assert bytes(buffer.view()) == pattern(consumed, sent - consumed)
    for start, view in kept:
        assert bytes(view) == pattern(start, len(view))


def test_a_chunk_is_lent_while_anybody_looks_into_it() -> None:
    chunk = bytearray(100)
    assert is_unused(chunk)
    view = memoryview(chunk)[3:4]
    assert not is_unused(chunk)
    del view
    assert is_unused(chunk)
    assert chunk == bytearray(100)


def test_connections_share_one_chunk_in_turn() -> None:
    pool = ChunkPool()
    seen = set()
    for _ in range(100):
        buffer = ReceiveBuffer(pool)
        seen.add(id(buffer.space(1).obj))
        buffer.received(10)
        buffer.consume(10)
        buffer.settle()
    assert len(seen) == 1


def test_chunks_that_a_cache_holds_for_long_come_back_to_be_read_into() -> None:
    """First in, first out, as the log's cache holds them: no fresh memory once it is full."""
    held_max = 2 * POOLED_CHUNKS_MAX
    pool = ChunkPool(held_max * CHUNK_BYTES)
    cache: deque[memoryview] = deque()
    seen = set()
    for _ in range(5 * held_max):
        buffer = ReceiveBuffer(pool)
        cache.append(buffer.space(CHUNK_BYTES))
        seen.add(id(cache[-1].obj))
        buffer.received(CHUNK_BYTES)
        buffer.consume(CHUNK_BYTES)
        buffer.settle()
        if len(cache) > held_max:
            cache.popleft()
    assert len(seen) <= held_max + POOLED_CHUNKS_MAX


def test_chunks_that_a_cache_has_let_go_of_are_not_kept_for_ever() -> None:
    held_max = 2 * POOLED_CHUNKS_MAX
    pool = ChunkPool(held_max * CHUNK_BYTES)
    chunks = [pool.take() for _ in range(held_max)]
    views = [memoryview(chunk) for chunk in chunks]
    for chunk in chunks:
        pool.give_back(chunk)
    del views, chunks, chunk
    for _ in range(held_max):
        pool.give_back(pool.take())
    assert len(pool) <= POOLED_CHUNKS_MAX


def test_a_small_rest_does_not_hold_a_chunk() -> None:
    pool = ChunkPool()
    buffer = ReceiveBuffer(pool)
    receive(buffer, pattern(0, KEPT_BYTES_MAX))
    buffer.settle()
    other = ReceiveBuffer(pool)
    receive(other, pattern(7, 1000))
    assert bytes(buffer.view()) == pattern(0, KEPT_BYTES_MAX)


def test_what_waits_longer_is_copied_out_too() -> None:
    pool = ChunkPool()
    buffer = ReceiveBuffer(pool)
    data = pattern(0, WAITING_BYTES_MAX)
    receive(buffer, data)
    chunk = buffer.view().obj
    buffer.settle()
    assert buffer.view().obj is chunk
    buffer.settle(WAITING_BYTES_MAX)
    assert buffer.view().obj is not chunk
    assert pool.take() is chunk
    receive(buffer, pattern(len(data), 1000))
    assert buffer.view() == pattern(0, len(data) + 1000)


def test_an_announcement_costs_nothing() -> None:
    buffer = ReceiveBuffer(ChunkPool())
    assert len(buffer.space(1 << 40)) <= CHUNK_BYTES
    receive(buffer, pattern(0, CHUNK_BYTES), 1 << 40)
    assert len(buffer.space(1 << 40)) <= 2 * CHUNK_BYTES


def test_a_frame_larger_than_a_chunk_comes_together() -> None:
    buffer = ReceiveBuffer(ChunkPool())
    data = pattern(0, 3 * CHUNK_BYTES + 17)
    receive(buffer, data, len(data))
    assert buffer.view() == data


def test_a_large_frame_is_moved_a_few_times_only() -> None:
    buffer = ReceiveBuffer(ChunkPool())
    size = 10 * CHUNK_BYTES
    homes = []
    for start in range(0, size, 4096):
        homes.append(buffer.space(size).obj)
        receive(buffer, pattern(start, 4096), size)
        buffer.settle()
    assert len({id(home) for home in homes}) <= 6
    assert len(buffer) == size


def test_there_is_always_room() -> None:
    buffer = ReceiveBuffer(ChunkPool())
    receive(buffer, pattern(0, CHUNK_BYTES - 1))
    assert len(buffer.space(1)) >= ROOM_BYTES_MIN


def test_the_pool_is_bounded() -> None:
    pool = ChunkPool()
    lent = [pool.take() for _ in range(POOLED_CHUNKS_MAX + 5)]
    views = [memoryview(chunk) for chunk in lent]
    for chunk in lent:
        pool.give_back(chunk)
    del chunk, lent, views
    pool.give_back(bytearray(CHUNK_BYTES * 2))
    again = {id(chunk) for chunk in [pool.take() for _ in range(POOLED_CHUNKS_MAX)]}
    assert len(again) == POOLED_CHUNKS_MAX
