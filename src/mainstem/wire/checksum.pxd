# C types for checksum.py, and sums for other compiled modules.
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

cdef extern from "mainstem/native/crc32c.h":
    bint has_crc32c() noexcept nogil
    bint folds() noexcept nogil
    unsigned int crc32c_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    unsigned int crc32c_more(unsigned int crc, const unsigned char *data, Py_ssize_t size) noexcept nogil
    Py_ssize_t find_bad_piece(
        const unsigned char *data, const unsigned int *sizes, const unsigned int *crcs, Py_ssize_t first, Py_ssize_t stop
    ) noexcept nogil

cdef inline Py_ssize_t bad_piece(
    const unsigned char[::1] content, const unsigned int[::1] sizes, const unsigned int[::1] crcs, Py_ssize_t first, Py_ssize_t stop
) except? -1:
    cdef Py_ssize_t index, total = 0, bad = -1
    for index in range(first, stop):
        total += sizes[index]
        crcs[index]
    if total > len(content):
        raise IndexError("the pieces are larger than what holds them")
    if first < stop:
        with nogil:
            bad = find_bad_piece(&content[0], &sizes[0], &crcs[0], first, stop)
    return bad

@cython.locals(view=Py_buffer, start="const unsigned char *", size=Py_ssize_t)
cpdef unsigned int crc32c(data, unsigned int crc=*) except? 0

cdef unsigned int _POLYNOMIAL

@cython.locals(power=int)
cpdef unsigned int joined_crc32c(unsigned int first, unsigned int second, unsigned long long second_bytes) except? 0

@cython.locals(product="unsigned int")
cdef unsigned int _product(unsigned int one, unsigned int other) except? 0
