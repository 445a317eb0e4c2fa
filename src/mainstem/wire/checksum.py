"""CRC32C, by which every stored byte is checked."""

from __future__ import annotations

from typing import Any

from crc32c import crc32c as library_crc32c

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813

if not cython.compiled:
    # C functions of checksum.pxd
    has_crc32c: Any = None
    crc32c_more = folds = PyBUF_SIMPLE = PyBuffer_Release = PyObject_GetBuffer = view = has_crc32c

STEPPED_BYTES_MAX = 4096
"""Where the processor does not fold, the library is faster with more."""
UNLOCKED_BYTES_MIN = 1 << 15
"""Others may run while so much is summed; for less, letting them costs more than it gains."""


def crc32c(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """Of data that follow what has the sum `crc`."""
    if not cython.compiled or not has_crc32c():
        return library_crc32c(data, crc)
    PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
    try:
        size, start = view.len, cython.cast("const unsigned char *", view.buf)
        if size > STEPPED_BYTES_MAX and not folds():
            return library_crc32c(data, crc)
        if size < UNLOCKED_BYTES_MIN:
            crc = crc32c_more(crc, start, size)
        else:
            with cython.nogil:
                crc = crc32c_more(crc, start, size)
        return crc
    finally:
        PyBuffer_Release(cython.address(view))
