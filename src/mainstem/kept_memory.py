"""Memory that is asked for again soon stays with the process.

The C library gives large pieces back at once. Then the kernel has to find, clear and map their pages each time anew, which can
cost as much as what is done with them. Where there is another C library, all is as that does it.
"""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of mallopt's parameters."""
_COUNT_MAX = (1 << 31) - 1
"""mallopt takes an int."""


def keep_memory(free_bytes: int, piece_bytes: int) -> None:
    """Keep so much at the end of the heap when it is free, and take pieces up to such a size from there."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, min(free_bytes, _COUNT_MAX))
        mallopt(_MMAP_THRESHOLD, min(piece_bytes, _COUNT_MAX))


def give_memory_back() -> None:
    """Everything that is free."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
