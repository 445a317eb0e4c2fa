"""Memory that sockets are read into: large chunks, shared by all connections, recycled.

A connection borrows a chunk from the moment the kernel has bytes for it until those bytes are used, which for most is
one call. So ten thousand silent connections hold no buffer at all, and one read can still take a megabyte at once.
Freshly allocated pages cost several times more than recycled ones, hence the pool.

A session may keep slices of a chunk. The chunk then stays lent until the last slice is gone: it is only ever
reused after asking the bytearray itself, which refuses to be resized while anybody looks into it.
"""

from __future__ import annotations

from collections import deque

CHUNK_BYTES = 1 << 20
"""What one read can take at most, unless a larger frame is under way."""

ROOM_BYTES_MIN = 64 << 10
"""With less room than this, or than the frame still needs, what is unused moves to another chunk."""

KEPT_BYTES_MAX = 16 << 10
"""An unfinished frame up to this size is copied out, so that a few bytes do not hold a chunk while the rest is awaited."""

WAITING_BYTES_MAX = CHUNK_BYTES // 2
"""The same for a connection that has time: a larger copy, but not for every read."""

POOLED_CHUNKS_MAX = 32
"""Chunks remembered for reuse, lent ones included, beside those that are known to be held for long; more are left to the
garbage collector."""


def is_unused(chunk: bytearray) -> bool:
    """Whether no view of the chunk exists. One byte less and one more again: within its allocation, nothing moves."""
    try:
        chunk.pop()
    except BufferError:
        return False
    chunk.append(0)
    return True


class ChunkPool:
    """Chunks of one size, given out and taken back.

    The log's cache looks into as many bytes of them as it may hold. Those are remembered too, so that under a steady load the
    chunk that leaves the cache is the next one to be read into.
    """

    def __init__(self, held_bytes_max: int = 0) -> None:
        self._chunks: deque[bytearray] = deque()
        self._chunks_max = POOLED_CHUNKS_MAX + held_bytes_max // CHUNK_BYTES

    def __len__(self) -> int:
        return len(self._chunks)

    def take(self) -> bytearray:
        """A chunk that nobody looks into."""
        chunks = self._chunks
        if chunks:
            # The one used last is the likeliest to be in the processor's cache, the one lent longest to be free.
            if is_unused(chunks[-1]):
                return chunks.pop()
            if is_unused(chunks[0]):
                return chunks.popleft()
        return bytearray(CHUNK_BYTES)

    def give_back(self, chunk: bytearray) -> None:
        """Slices of it may still be in use."""
        if len(chunk) == CHUNK_BYTES:
            chunks = self._chunks
            chunks.append(chunk)
            # Of those that the cache held and has let go of for other buffers, a few are enough.
            if len(chunks) > self._chunks_max or (
                len(chunks) > POOLED_CHUNKS_MAX and is_unused(chunks[POOLED_CHUNKS_MAX])
            ):
                chunks.popleft()


class ReceiveBuffer:
    """What one connection has received and its session has not used yet."""

    __slots__ = ("_chunk", "_end", "_kept", "_pool", "_start")

    def __init__(self, pool: ChunkPool) -> None:
        self._pool = pool
        self._chunk: bytearray | None = None
        self._kept = bytearray()
        self._start = 0
        self._end = 0

    def __len__(self) -> int:
        return self._end - self._start

    def space(self, wanted: int) -> memoryview:
        """Where the next bytes go, behind those that are here; the session waits until it has `wanted` of them in all."""
        chunk = self._chunk
        if chunk is None:
            chunk = self._chunk = self._pool.take()
            if self._kept:
                chunk[: len(self._kept)] = self._kept
                self._kept = bytearray()
        missing = wanted - (self._end - self._start)
        room_min = missing if 0 < missing < ROOM_BYTES_MIN else ROOM_BYTES_MIN
        if len(chunk) - self._end < room_min:
            chunk = self._move(chunk, wanted)
        return memoryview(chunk)[self._end :]

    def _move(self, chunk: bytearray, wanted: int) -> bytearray:
        """Bring what is unused to the front of a chunk with room.

        For a frame larger than a chunk the memory at most doubles with what has come: announcing 100 MB costs nothing.
        """
        have = len(self)
        if max(wanted, have + ROOM_BYTES_MIN) <= CHUNK_BYTES:
            larger = self._pool.take()
        else:
            larger = bytearray(max(min(wanted, 2 * have), have + ROOM_BYTES_MIN, CHUNK_BYTES))
        larger[:have] = memoryview(chunk)[self._start : self._end]
        self._pool.give_back(chunk)
        self._chunk, self._start, self._end = larger, 0, have
        return larger

    def received(self, count: int) -> None:
        """The socket put this number of bytes into the space."""
        self._end += count

    def view(self) -> memoryview:
        """All that is unused, writable."""
        return memoryview(self._kept if self._chunk is None else self._chunk)[self._start : self._end]

    def consume(self, count: int) -> None:
        """The session used this number of bytes."""
        assert 0 <= count <= len(self)
        self._start += count

    def settle(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        """Between two reads, hold as little as possible."""
        chunk = self._chunk
        have = len(self)
        if have > kept_bytes_max:
            return
        if chunk is not None:
            self._kept = chunk[self._start : self._end]
            self._chunk = None
            self._pool.give_back(chunk)
        elif self._start:
            self._kept = self._kept[self._start :]
        self._start, self._end = 0, have

    def clear(self) -> None:
        """Forget everything."""
        self._start = self._end
        self.settle()
