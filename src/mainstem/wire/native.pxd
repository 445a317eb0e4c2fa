# C that every compiled module may use: numbers in bytes, columns that grow, and the checksum of small pieces, for which the call
# of a library costs more than the sum, where the processor has an instruction for it. Its Python twin is bytes_at.py.

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

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__GNUC__) && defined(__x86_64__)
    #define MAINSTEM_CRC_INSTRUCTION 1
    #endif

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

    #ifdef MAINSTEM_CRC_INSTRUCTION
    __attribute__((target("sse4.2")))
    static uint32_t crc32c_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) {
        uint64_t crc = 0xFFFFFFFFu, word;
        data += at;
        for (; size >= 8; size -= 8, data += 8) {
            memcpy(&word, data, 8);
            crc = __builtin_ia32_crc32di(crc, word);
        }
        while (size-- > 0) crc = __builtin_ia32_crc32qi((uint32_t)crc, *data++);
        return ~(uint32_t)crc;
    }
    /* The instruction takes three cycles and one can begin in each: three pieces at a time, as far as they are of one size. */
    __attribute__((target("sse4.2")))
    static void crc32c_of_three(const unsigned char *data, Py_ssize_t size, uint32_t *sums) {
        uint64_t a = 0xFFFFFFFFu, b = a, c = a, x, y, z;
        Py_ssize_t at = 0;
        for (; at + 8 <= size; at += 8) {
            memcpy(&x, data + at, 8);
            memcpy(&y, data + size + at, 8);
            memcpy(&z, data + 2 * size + at, 8);
            a = __builtin_ia32_crc32di(a, x);
            b = __builtin_ia32_crc32di(b, y);
            c = __builtin_ia32_crc32di(c, z);
        }
        for (; at < size; at++) {
            a = __builtin_ia32_crc32qi((uint32_t)a, data[at]);
            b = __builtin_ia32_crc32qi((uint32_t)b, data[size + at]);
            c = __builtin_ia32_crc32qi((uint32_t)c, data[2 * size + at]);
        }
        sums[0] = ~(uint32_t)a; sums[1] = ~(uint32_t)b; sums[2] = ~(uint32_t)c;
    }
    static inline int has_crc32c(void) { return __builtin_cpu_supports("sse4.2") != 0; }
    #else
    static inline uint32_t crc32c_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) { return 0; }
    static inline void crc32c_of_three(const unsigned char *data, Py_ssize_t size, uint32_t *sums) {}
    static inline int has_crc32c(void) { return 0; }
    #endif

    static Py_ssize_t find_bad_piece(
        const unsigned char *data, const unsigned int *sizes, const unsigned int *crcs, Py_ssize_t first, Py_ssize_t stop
    ) {
        while (first < stop) {
            Py_ssize_t size = sizes[first];
            if (first + 2 < stop && sizes[first + 1] == size && sizes[first + 2] == size) {
                uint32_t sums[3];
                crc32c_of_three(data, size, sums);
                for (int i = 0; i < 3; i++) if (sums[i] != crcs[first + i]) return first + i;
                first += 3;
                data += 3 * size;
            } else {
                if (crc32c_at(data, 0, size) != crcs[first]) return first;
                first += 1;
                data += size;
            }
        }
        return -1;
    }
    """
    unsigned int u32_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    int i32_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    long long i64_at(const unsigned char *data, Py_ssize_t at) noexcept nogil
    void put_u32(unsigned char *data, Py_ssize_t at, unsigned int value) noexcept nogil
    void put_i64(unsigned char *data, Py_ssize_t at, long long value) noexcept nogil
    void put_le32(unsigned char *data, Py_ssize_t at, unsigned int value) noexcept nogil
    void put_le64(unsigned char *data, Py_ssize_t at, long long value) noexcept nogil
    unsigned int crc32c_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    bint has_crc32c() noexcept nogil
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
