/* Numbers and pieces at a position in bytes. The Python twin is wire/bytes_at.py. */
#pragma once

#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Big-endian, as both protocols have them. */

static inline uint32_t u16_at(const unsigned char *data, Py_ssize_t at) {
    return (uint32_t)data[at] << 8 | data[at + 1];
}

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

/* Little-endian, as files have them. */

static inline void put_le32(unsigned char *data, Py_ssize_t at, uint32_t value) {
    data += at;
    data[0] = value; data[1] = value >> 8; data[2] = value >> 16; data[3] = value >> 24;
}

static inline void put_le64(unsigned char *data, Py_ssize_t at, int64_t value) {
    put_le32(data, at, (uint32_t)value);
    put_le32(data, at + 4, (uint32_t)((uint64_t)value >> 32));
}

/* Pieces. */

static inline int same_at(const unsigned char *data, Py_ssize_t at, const unsigned char *other, Py_ssize_t size) {
    return memcmp(data + at, other, size) == 0;
}

/* Returns where the piece ends. */
static inline Py_ssize_t put_bytes(unsigned char *data, Py_ssize_t at, const unsigned char *piece, Py_ssize_t size) {
    memcpy(data + at, piece, size);
    return at + size;
}

/* A part of a piece; a size of -1 stands for null, which has no bytes. Returns where it ends. */
static inline Py_ssize_t put_part(
    unsigned char *data, Py_ssize_t at, const unsigned char *piece, int64_t from, int64_t size
) {
    if (size > 0) {
        memcpy(data + at, piece + from, size);
        at += size;
    }
    return at;
}
