# C types for run_blocks.py.
cimport cython
from mainstem.wire.native cimport i32_at, put_i64
from mainstem.wire.checksum cimport bad_piece, find_bad_piece, has_crc32c

cdef extern from "mainstem/native/run_blocks.h":
    Py_ssize_t read_checked(
        int fd, unsigned char *data, const unsigned long long *positions, const unsigned int *sizes, const unsigned int *crcs,
        Py_ssize_t first, Py_ssize_t stop, int *error
    ) noexcept nogil

@cython.locals(block=Py_ssize_t, start="unsigned long long", at="unsigned long long")
cpdef Py_ssize_t neighbours_end(
    const unsigned long long[::1] positions, const unsigned int[::1] sizes, Py_ssize_t first, Py_ssize_t stop, long long bytes_max
) except -1

cpdef Py_ssize_t bad_block(content, sizes, crcs, Py_ssize_t first, Py_ssize_t stop) except? -1

cdef inline Py_ssize_t read_pieces(
    int fd, unsigned char[::1] view, const unsigned long long[::1] positions, const unsigned int[::1] sizes,
    const unsigned int[::1] crcs, Py_ssize_t first, Py_ssize_t stop,
) except? -1:
    cdef Py_ssize_t index, total = 0, bad = -1
    cdef int error = 0
    for index in range(first, stop):
        total += sizes[index]
        crcs[index]
        positions[index]
    if total != len(view):
        raise IndexError("the blocks do not fill what they are read into")
    if total:
        with nogil:
            bad = read_checked(fd, &view[0], &positions[0], &sizes[0], &crcs[0], first, stop, &error)
    if error:
        raise OSError(error, "a run could not be read")
    return bad

cpdef Py_ssize_t read_blocks(file, view, positions, sizes, crcs, Py_ssize_t first, Py_ssize_t stop) except? -1

cdef inline long long place_all(unsigned char[::1] block, long long first) except? -1:
    cdef Py_ssize_t at = 0, size = len(block)
    cdef long long length
    cdef unsigned char *data = &block[0]
    with nogil:
        while at < size:
            length = 12 + <long long>i32_at(data, at + 8) if size - at >= 61 else 0
            if length < 61 or length > size - at:
                return -1
            put_i64(data, at, first)
            first += <long long>i32_at(data, at + 23) + 1
            at += length
    return first

cpdef long long place_batches(block, long long first) except? -1
