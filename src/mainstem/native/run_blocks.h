/* Blocks of a run: read, and checked while the processor still has them. Needs no interpreter. */
#pragma once

#include <Python.h>
#include <errno.h>
#include <unistd.h>

#include "crc32c.h"

#define CHECKED_BYTES (512 << 10)    /* read and checked at a time: fits into the processor's cache */

/* Which of these blocks could not be read or does not match; -1: all do. A failure of the disk is in `error`. */
static inline Py_ssize_t read_checked(
    int fd, unsigned char *data, const unsigned long long *positions, const unsigned int *sizes, const unsigned int *crcs,
    Py_ssize_t first, Py_ssize_t stop, int *error
) {
    while (first < stop) {
        unsigned long long position = positions[first];
        Py_ssize_t end = first, size = 0, count = 0, bad;
        do size += sizes[end++];
        while (end < stop && positions[end] == position + size && size + sizes[end] <= CHECKED_BYTES);
        while (count < size) {
            ssize_t more = pread(fd, data + count, size - count, position + count);
            if (more < 0 && errno == EINTR) continue;
            if (more < 0) {
                *error = errno;
                return first;
            }
            if (more == 0) {    /* the file ends: the block that is not whole */
                for (; count >= sizes[first]; first++) count -= sizes[first];
                return first;
            }
            count += more;
        }
        bad = find_bad_piece(data, sizes, crcs, first, end);
        if (bad >= 0) return bad;
        data += size;
        first = end;
    }
    return -1;
}
