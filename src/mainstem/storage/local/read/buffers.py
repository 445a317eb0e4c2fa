"""Buffers for reading from disk, used again: fresh memory costs as much as the reading itself."""

from __future__ import annotations

import ctypes
import sys
import threading

BUFFER_BYTES = 4 << 20
BUFFERS_MAX = 16
"""Buffers that there may be; while all are held, a read gets memory of its own."""
POOLED_BYTES_MIN = 1 << 20
"""Smaller reads get memory of their own: a small batch must not hold a large buffer."""
STEP = 128
AWAY = 64
"""Some processors copy several times slower where the target begins a few bytes behind the source, as seen within a page.
So a view begins this far behind the place in the file, modulo STEP, and so does what lies a multiple of that further on."""

_UNUSED = 2
"""References to a buffer that nobody looks into: the one in the pool's list, and the argument of the count."""


class ReadBuffers:
    """A pool shared by the reading threads.

    A buffer is free again when no view of it is left, wherever that was passed on to: a view holds a reference to its buffer, and
    the interpreter counts them.
    """

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []
        self._addresses: list[int] = []
        self._lock = threading.Lock()

    def take(self, size: int, position: int) -> memoryview:
        """A view of `size` bytes that nobody else looks into, for what lies at a position of a file."""
        if POOLED_BYTES_MIN <= size <= BUFFER_BYTES:
            with self._lock:
                buffers = self._buffers
                for index in range(len(buffers)):
                    if sys.getrefcount(buffers[index]) == _UNUSED:
                        return self._view(index, size, position)
                if len(buffers) < BUFFERS_MAX:
                    buffers.append(bytearray(BUFFER_BYTES + STEP))
                    self._addresses.append(ctypes.addressof(ctypes.c_char.from_buffer(buffers[-1])))
                    return self._view(-1, size, position)
        return memoryview(bytearray(size))

    def _view(self, index: int, size: int, position: int) -> memoryview:
        first = (position + AWAY - self._addresses[index]) % STEP
        return memoryview(self._buffers[index])[first : first + size]
