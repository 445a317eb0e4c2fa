/* CRC32C by the processor's own means, where it has any.

   Small pieces are summed by its instruction: a call of a library would cost more than the sum. Large ones are folded by
   carry-less multiplication, 256 bytes at a time, where the processor multiplies that wide. */
#pragma once

#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && defined(__x86_64__)
#define FOLDED_BYTES_MIN 512

__attribute__((target("sse4.2")))
static inline uint32_t crc32c_step(uint32_t state, const unsigned char *data, Py_ssize_t size) {
    uint64_t crc = state, word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    while (size-- > 0) crc = __builtin_ia32_crc32qi((uint32_t)crc, *data++);
    return (uint32_t)crc;
}

#if __GNUC__ >= 8 || __clang_major__ >= 7
#include <immintrin.h>
/* Data that stands n bits before the end counts as much as its product with x^n modulo the polynomial. So what was read is kept
   as a few lanes of 128 bits, and each lane is multiplied by x^n when n more bits were read. The factors are x^(n + 32) and
   x^(n - 32) with their bits reversed, for n bits from one use of a lane to the next. */
#define FOLD(lanes, by, next) _mm512_ternarylogic_epi64( \
    _mm512_clmulepi64_epi128(lanes, by, 0x00), _mm512_clmulepi64_epi128(lanes, by, 0x11), next, 0x96)
#define LANES(at) _mm512_loadu_si512((const void *)(at))

__attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))
static inline uint32_t crc32c_fold(uint32_t state, const unsigned char *data, Py_ssize_t size) {
    const __m512i by_2048 = _mm512_broadcast_i32x4(_mm_set_epi64x(0xB9E02B86, 0xDCB17AA4));
    const __m512i by_512 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x9E4ADDF8, 0x740EEF02));
    const __m128i by_128 = _mm_set_epi64x(0x14CD00BD6, 0xF20C0DFE);
    __m512i a = _mm512_xor_si512(
        LANES(data), _mm512_inserti32x4(_mm512_setzero_si512(), _mm_cvtsi32_si128((int)state), 0));
    __m512i b = LANES(data + 64), c = LANES(data + 128), d = LANES(data + 192);
    __m128i lane[4], last;
    for (data += 256, size -= 256; size >= 256; data += 256, size -= 256) {
        a = FOLD(a, by_2048, LANES(data));
        b = FOLD(b, by_2048, LANES(data + 64));
        c = FOLD(c, by_2048, LANES(data + 128));
        d = FOLD(d, by_2048, LANES(data + 192));
    }
    b = FOLD(a, by_512, b);
    c = FOLD(b, by_512, c);
    d = FOLD(c, by_512, d);
    for (; size >= 64; data += 64, size -= 64) d = FOLD(d, by_512, LANES(data));
    _mm512_storeu_si512(lane, d);
    last = lane[0];
    for (int i = 1; i < 4; i++) {
        __m128i low = _mm_clmulepi64_si128(last, by_128, 0x00), high = _mm_clmulepi64_si128(last, by_128, 0x11);
        last = _mm_xor_si128(_mm_xor_si128(low, high), lane[i]);
    }
    return crc32c_step(crc32c_step(0, (const unsigned char *)&last, sizeof last), data, size);
}
static inline int folds(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}
#else
#define crc32c_fold crc32c_step
static inline int folds(void) { return 0; }
#endif
static inline int has_crc32c(void) { return __builtin_cpu_supports("sse4.2") != 0; }
static inline uint32_t crc32c_more(uint32_t crc, const unsigned char *data, Py_ssize_t size) {
    return ~(size >= FOLDED_BYTES_MIN && folds() ? crc32c_fold : crc32c_step)(~crc, data, size);
}

/* The instruction takes three cycles and one can begin in each cycle: so three pieces of one size are summed at a time. */
__attribute__((target("sse4.2")))
static inline void crc32c_of_three(const unsigned char *data, Py_ssize_t size, uint32_t *sums) {
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
#else
#define FOLDED_BYTES_MIN 0
static inline int folds(void) { return 0; }
static inline int has_crc32c(void) { return 0; }
static inline uint32_t crc32c_more(uint32_t crc, const unsigned char *data, Py_ssize_t size) { return 0; }
static inline void crc32c_of_three(const unsigned char *data, Py_ssize_t size, uint32_t *sums) {}
#endif

static inline uint32_t crc32c_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) {
    return crc32c_more(0, data + at, size);
}

/* Which of the pieces `first` to `stop`, whose bytes follow each other, does not match its checksum; -1: all do. */
static inline Py_ssize_t find_bad_piece(
    const unsigned char *data, const unsigned int *sizes, const unsigned int *crcs, Py_ssize_t first, Py_ssize_t stop
) {
    while (first < stop) {
        Py_ssize_t size = sizes[first];
        int is_folded = size >= FOLDED_BYTES_MIN && folds();
        if (!is_folded && first + 2 < stop && sizes[first + 1] == size && sizes[first + 2] == size) {
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
