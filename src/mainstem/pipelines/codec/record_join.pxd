# C types for record_join.py.
cimport cython

cdef extern from "mainstem/native/varint.h":
    Py_ssize_t signed_varint_size(long long number) noexcept
    Py_ssize_t put_signed_varint(unsigned char *data, Py_ssize_t at, long long number) noexcept

cdef extern from "mainstem/native/bytes_at.h":
    Py_ssize_t put_part(unsigned char *data, Py_ssize_t at, const unsigned char *piece, long long start, long long size) noexcept

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
