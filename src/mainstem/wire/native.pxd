# C that every compiled module may use: numbers in bytes, and columns that grow. Its Python twin is bytes_at.py.

from cpython cimport array

cdef inline int append_row(array.array rows, long long base, long long place, long long size, long long time) except -1:
    cdef Py_ssize_t count = rows.ob_size
    array.resize_smart(rows, count + 4)
    cdef long long *row = rows.data.as_longlongs + count
    row[0] = base
    row[1] = place
    row[2] = size
    row[3] = time
    return 0

cdef inline long long number_at(array.array rows, Py_ssize_t index) noexcept:
    return rows.data.as_longlongs[index]

cdef inline unsigned int small_number_at(array.array rows, Py_ssize_t index) noexcept:
    return rows.data.as_uints[index]

cdef inline int append_small(array.array rows, unsigned int number) except -1:
    cdef Py_ssize_t count = rows.ob_size
    array.resize_smart(rows, count + 1)
    rows.data.as_uints[count] = number
    return 0

cdef extern from "mainstem/native/bytes_at.h":
    unsigned int u16_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    unsigned int u32_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    int i32_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    long long i64_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    void put_u32(unsigned char *data, Py_ssize_t at, unsigned int value) noexcept nogil
    void put_i64(unsigned char *data, Py_ssize_t at, long long value) noexcept nogil
    void put_le32(unsigned char *data, Py_ssize_t at, unsigned int value) noexcept nogil
    void put_le64(unsigned char *data, Py_ssize_t at, long long value) noexcept nogil
    bint same_at(const unsigned char *data, Py_ssize_t at, const unsigned char *other, Py_ssize_t size) noexcept nogil
    Py_ssize_t put_bytes(unsigned char *data, Py_ssize_t at, const unsigned char *piece, Py_ssize_t size) noexcept nogil

cdef extern from "mainstem/native/varint.h":
    Py_ssize_t put_varint(unsigned char *data, Py_ssize_t at, unsigned long long value) noexcept nogil
    Py_ssize_t varint_size(unsigned long long value) noexcept nogil

cdef extern from "Python.h":
    int PyByteArray_Resize(bytearray data, Py_ssize_t size) except -1

cdef inline Py_ssize_t grow(bytearray data, Py_ssize_t size) except -1:
    cdef Py_ssize_t before = len(data)
    PyByteArray_Resize(data, before + size)
    return before
