"""Buffers for reading from disk, used again: fresh memory costs as much as the reading itself."""

from __future__ import annotations

import sys
import threading

BUFFER_BYTES = 4 << 20
BUFFERS_MAX = 16
"""Buffers that there may be; while all are held, a read gets memory of its own."""
POOLED_BYTES_MIN = 1 << 20
"""Smaller reads get memory of their own: a small batch must not hold a large buffer."""

_UNUSED = 2
"""References to a buffer that nobody looks into: the one in the pool's list, and the argument of the count."""


class ReadBuffers:
    """A pool shared by the threads of the read lane.

    A buffer is free again when no view of it is left, wherever that was passed on to: a view holds a reference to its buffer, and
    the interpreter counts them.
    """

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> memoryview:
        """A view of `size` bytes that nobody else looks into."""
        if POOLED_BYTES_MIN <= size <= BUFFER_BYTES:
            with self._lock:
                buffers = self._buffers
                for index in range(len(buffers)):
                    if sys.getrefcount(buffers[index]) == _UNUSED:
                        return memoryview(buffers[index])[:size]
                if len(buffers) < BUFFERS_MAX:
                    buffers.append(bytearray(BUFFER_BYTES))
                    return memoryview(buffers[-1])[:size]
        return memoryview(bytearray(size))
