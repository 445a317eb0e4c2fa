/* Numbers in as many bytes as they need, seven bits in each, zigzag: as records have them. */
#pragma once

#include <Python.h>
#include <stdint.h>

static inline uint64_t zigzag(int64_t number) { return (uint64_t)number << 1 ^ (uint64_t)(number >> 63); }

static inline Py_ssize_t raw_varint_size(uint64_t raw) {
    Py_ssize_t size = 1;
    for (; raw > 0x7F; raw >>= 7) size++;
    return size;
}

/* Returns where it ends. */
static inline Py_ssize_t put_raw_varint(unsigned char *data, Py_ssize_t at, uint64_t raw) {
    for (; raw > 0x7F; raw >>= 7) data[at++] = (unsigned char)(raw | 0x80);
    data[at++] = (unsigned char)raw;
    return at;
}

/* Of a number that may be negative. */
static inline Py_ssize_t signed_varint_size(int64_t number) { return raw_varint_size(zigzag(number)); }
static inline Py_ssize_t put_signed_varint(unsigned char *data, Py_ssize_t at, int64_t number) {
    return put_raw_varint(data, at, zigzag(number));
}

/* Of a number that is not negative. */
static inline Py_ssize_t varint_size(uint64_t number) { return raw_varint_size(number << 1); }
static inline Py_ssize_t put_varint(unsigned char *data, Py_ssize_t at, uint64_t number) {
    return put_raw_varint(data, at, number << 1);
}
