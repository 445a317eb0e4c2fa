# C that every compiled module may use: numbers in bytes, columns that grow, and the checksum of small pieces, for which the call
# of a library costs more than the sum. Its Python twin is bytes_at.py.

from cpython cimport array

cdef inline int append_i64(array.array column, long long value) except -1:
    cdef Py_ssize_t count = len(column)
    array.resize_smart(column, count + 1)
    column.data.as_longlongs[count] = value
    return 0

cdef inline int append_u32(array.array column, unsigned int value) except -1:
    cdef Py_ssize_t count = len(column)
    array.resize_smart(column, count + 1)
    column.data.as_uints[count] = value
    return 0

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

    static uint32_t mainstem_crc_table[8][256];
    static int mainstem_crc_ready;

    static void mainstem_crc_prepare(void) {
        for (int i = 0; i < 256; i++) {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
            mainstem_crc_table[0][i] = crc;
        }
        for (int i = 0; i < 256; i++)
            for (int k = 1; k < 8; k++)
                mainstem_crc_table[k][i] =
                    mainstem_crc_table[k - 1][i] >> 8 ^ mainstem_crc_table[0][mainstem_crc_table[k - 1][i] & 0xFF];
        mainstem_crc_ready = 1;
    }

    static uint32_t mainstem_crc_portable(const unsigned char *data, Py_ssize_t size) {
        uint32_t crc = 0xFFFFFFFFu;
        if (!mainstem_crc_ready) mainstem_crc_prepare();
        for (; size >= 8; size -= 8, data += 8) {
            uint32_t low = crc ^ ((uint32_t)data[3] << 24 | (uint32_t)data[2] << 16 | (uint32_t)data[1] << 8 | data[0]);
            crc = mainstem_crc_table[7][low & 0xFF] ^ mainstem_crc_table[6][low >> 8 & 0xFF] ^
                  mainstem_crc_table[5][low >> 16 & 0xFF] ^ mainstem_crc_table[4][low >> 24] ^
                  mainstem_crc_table[3][data[4]] ^ mainstem_crc_table[2][data[5]] ^
                  mainstem_crc_table[1][data[6]] ^ mainstem_crc_table[0][data[7]];
        }
        while (size-- > 0) crc = crc >> 8 ^ mainstem_crc_table[0][(crc ^ *data++) & 0xFF];
        return ~crc;
    }

    #ifdef MAINSTEM_CRC_INSTRUCTION
    __attribute__((target("sse4.2")))
    static uint32_t mainstem_crc_instruction(const unsigned char *data, Py_ssize_t size) {
        uint64_t crc = 0xFFFFFFFFu, word;
        for (; size >= 8; size -= 8, data += 8) {
            memcpy(&word, data, 8);
            crc = __builtin_ia32_crc32di(crc, word);
        }
        while (size-- > 0) crc = __builtin_ia32_crc32qi((uint32_t)crc, *data++);
        return ~(uint32_t)crc;
    }
    #endif

    static inline uint32_t crc32c_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) {
    #ifdef MAINSTEM_CRC_INSTRUCTION
        if (__builtin_cpu_supports("sse4.2")) return mainstem_crc_instruction(data + at, size);
    #endif
        return mainstem_crc_portable(data + at, size);
    }
    static inline uint32_t crc32c_portable_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) {
        return mainstem_crc_portable(data + at, size);
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
    unsigned int crc32c_portable_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) noexcept nogil
