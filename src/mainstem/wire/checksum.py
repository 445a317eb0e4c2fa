"""CRC32C, by which every stored byte is checked."""

from __future__ import annotations

from array import array
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
_POLYNOMIAL = 0x82F6_3B78


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


def joined_crc32c(first: int, second: int, second_bytes: int) -> int:
    """Of two pieces one behind the other, out of the sums of both."""
    power = 3  # of two: a byte moves what stands before it by eight bits
    while second_bytes:
        if second_bytes & 1:
            first = _product(_POWERS[power], first)
        second_bytes >>= 1
        power += 1
    return first ^ second


def _product(one: int, other: int) -> int:
    """Of two polynomials, modulo that of CRC32C; the highest bit is that of x^0."""
    product = 0
    while one:
        if one & 0x8000_0000:
            product ^= other
        one = one << 1 & 0xFFFF_FFFF
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product


def _powers() -> array[int]:
    """Powers of x whose exponents are powers of two, for as many bits as a number of bits may have."""
    powers = array("I", [0x4000_0000])
    for _ in range(63):
        powers.append(_product(powers[-1], powers[-1]))
    return powers


_POWERS = _powers()
