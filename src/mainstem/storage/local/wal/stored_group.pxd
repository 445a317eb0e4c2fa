# C types for group.py.
cimport cython
from mainstem.wire.checksum cimport crc32c_at, has_crc32c
from mainstem.wire.native cimport i64_at, u32_at

cdef int _BATCH_CRC_FROM

@cython.locals(
    data="const unsigned char[::1]", bases="const long long[::1]", sizes="const unsigned int[::1]", crcs="const unsigned int[::1]",
    position=Py_ssize_t, index=Py_ssize_t, size=Py_ssize_t,
)
cpdef check_batches(content, frame, head, bint by_heads)

@cython.locals(start="const unsigned char *")
cdef bint _begins(const unsigned char[::1] data, Py_ssize_t at, long long base, Py_ssize_t size, unsigned int crc) except -1

cdef unsigned int _checksum(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t size) except? 0
