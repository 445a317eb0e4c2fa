# C types for record_join.py.
cimport cython

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline uint64_t zigzag(int64_t number) { return (uint64_t)number << 1 ^ (uint64_t)(number >> 63); }
    static inline Py_ssize_t number_size(int64_t number) {
        uint64_t rest = zigzag(number);
        Py_ssize_t size = 1;
        for (; rest > 0x7F; rest >>= 7) size++;
        return size;
    }
    static inline Py_ssize_t put_number(unsigned char *data, Py_ssize_t at, int64_t number) {
        uint64_t rest = zigzag(number);
        for (; rest > 0x7F; rest >>= 7) data[at++] = (unsigned char)(rest | 0x80);
        data[at++] = (unsigned char)rest;
        return at;
    }
    static inline Py_ssize_t put_piece(unsigned char *data, Py_ssize_t at, const unsigned char *piece, int64_t from, int64_t size) {
        if (size > 0) { memcpy(data + at, piece + from, size); at += size; }
        return at;
    }
    """
    Py_ssize_t number_size(long long number) noexcept
    Py_ssize_t put_number(unsigned char *data, Py_ssize_t at, long long number) noexcept
    Py_ssize_t put_piece(unsigned char *data, Py_ssize_t at, const unsigned char *piece, long long start, long long size) noexcept

cdef extern from "Python.h":
    # bytearray() would write zeros first
    bytearray unwritten "PyByteArray_FromStringAndSize" (const char *content, Py_ssize_t size)

cdef inline const unsigned char *start_of(const unsigned char[::1] content) except NULL:
    return &content[0] if len(content) else <const unsigned char *>b""

@cython.locals(
    key_data="const unsigned char *", value_data="const unsigned char *", tail_data="const unsigned char *", data="unsigned char *",
    rows=Py_ssize_t, row=Py_ssize_t, place=Py_ssize_t, at=Py_ssize_t, size="long long", tail="long long", has_tails=bint, out=bytearray,
)
cpdef bytearray join_records(
    const unsigned char[::1] keys, const long long[::1] key_bounds, const long long[::1] key_sizes,
    const unsigned char[::1] values, const long long[::1] value_bounds, const long long[::1] value_sizes,
    const unsigned char[::1] tails, const long long[::1] tail_bounds,
    const long long[::1] timestamp_deltas, const long long[::1] offset_deltas,
    const long long[::1] places, Py_ssize_t room, long long[::1] bounds,
)
