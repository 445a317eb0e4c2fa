# C types for run_blocks.py.
cimport cython
from mainstem.wire.checksum cimport bad_piece, has_crc32c

@cython.locals(block=Py_ssize_t, start="unsigned long long", at="unsigned long long")
cpdef Py_ssize_t neighbours_end(
    const unsigned long long[::1] positions, const unsigned int[::1] sizes, Py_ssize_t first, Py_ssize_t stop, long long bytes_max
) except -1

cpdef Py_ssize_t bad_block(content, sizes, crcs, Py_ssize_t first, Py_ssize_t stop) except? -1
