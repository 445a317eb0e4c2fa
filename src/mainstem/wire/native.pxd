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

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline uint32_t u32_at(const unsigned char *data, Py_ssize_t at) {
        data += at;
        return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
    }
    static inline int32_t i32_at(const unsigned char *data, Py_ssize_t at) { return (int32_t)u32_at(data, at); }
    static inline int64_t i64_at(const unsigned char *data, Py_ssize_t at) {
        return (int64_t)((uint64_t)u32_at(data, at) << 32 | u32_at(data, at + 4));
    }
    static inline void put_u32(unsigned char *data, Py_ssize_t at, uint32_t value) {
        data += at;
        data[0] = value >> 24; data[1] = value >> 16; data[2] = value >> 8; data[3] = value;
    }
    static inline void put_i64(unsigned char *data, Py_ssize_t at, int64_t value) {
        put_u32(data, at, (uint32_t)((uint64_t)value >> 32));
        put_u32(data, at + 4, (uint32_t)value);
    }

    static inline void put_le32(unsigned char *data, Py_ssize_t at, uint32_t value) {
        data += at;
        data[0] = value; data[1] = value >> 8; data[2] = value >> 16; data[3] = value >> 24;
    }
    static inline void put_le64(unsigned char *data, Py_ssize_t at, int64_t value) {
        put_le32(data, at, (uint32_t)value);
        put_le32(data, at + 4, (uint32_t)((uint64_t)value >> 32));
    }
    """
    unsigned int u32_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    int i32_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    long long i64_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    void put_u32(unsigned char *data, Py_ssize_t at, unsigned int value) noexcept nogil
    void put_i64(unsigned char *data, Py_ssize_t at, long long value) noexcept nogil
    void put_le32(unsigned char *data, Py_ssize_t at, unsigned int value) noexcept nogil
    void put_le64(unsigned char *data, Py_ssize_t at, long long value) noexcept nogil

cdef extern from *:
    """
    static inline uint32_t u16_at(const unsigned char *data, Py_ssize_t at) {
        return (uint32_t)data[at] << 8 | data[at + 1];
    }
    static inline int same_at(const unsigned char *data, Py_ssize_t at, const unsigned char *other, Py_ssize_t size) {
        return memcmp(data + at, other, size) == 0;
    }
    /* Zigzag, of a number that is not negative; answers where it ends. */
    static inline Py_ssize_t put_varint(unsigned char *data, Py_ssize_t at, uint64_t value) {
        for (value <<= 1; value > 0x7F; value >>= 7) data[at++] = value | 0x80;
        data[at++] = value;
        return at;
    }
    static inline Py_ssize_t varint_size(uint64_t value) {
        Py_ssize_t size = 1;
        for (value <<= 1; value > 0x7F; value >>= 7) size++;
        return size;
    }
    static inline Py_ssize_t put_bytes(unsigned char *data, Py_ssize_t at, const unsigned char *piece, Py_ssize_t size) {
        memcpy(data + at, piece, size);
        return at + size;
    }
    """
    unsigned int u16_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    bint same_at(const unsigned char *data, Py_ssize_t at, const unsigned char *other, Py_ssize_t size) noexcept nogil
    Py_ssize_t put_varint(unsigned char *data, Py_ssize_t at, unsigned long long value) noexcept nogil
    Py_ssize_t varint_size(unsigned long long value) noexcept nogil
    Py_ssize_t put_bytes(unsigned char *data, Py_ssize_t at, const unsigned char *piece, Py_ssize_t size) noexcept nogil
    int PyByteArray_Resize(bytearray data, Py_ssize_t size) except -1

cdef inline Py_ssize_t grow(bytearray data, Py_ssize_t size) except -1:
    cdef Py_ssize_t before = len(data)
    PyByteArray_Resize(data, before + size)
    return before
