# C types for stored_batches.py.
from mainstem.wire.checksum cimport crc32c_at, has_crc32c
from mainstem.wire.native cimport i64_at, u32_at

cdef enum:
    HEAD_BYTES = 21    # up to the checksum; what follows is summed

cdef inline Py_ssize_t find_bad_batch(const unsigned char[::1] content, const unsigned int[::1] sizes, const long long[::1] bases) except? -1:
    cdef Py_ssize_t index, at = 0, count = len(sizes), total = len(content)
    cdef const unsigned char *batch
    if len(bases) != count:
        raise IndexError("as many sizes as base offsets")
    with nogil:
        for index in range(count):
            if sizes[index] < HEAD_BYTES or at + sizes[index] > total:
                return index
            batch = &content[at]
            if batch[16] != 2 or u32_at(batch, 8) != sizes[index] - 12 or (bases[index] >= 0 and i64_at(batch, 0) != bases[index]):
                return index
            if crc32c_at(batch, HEAD_BYTES, sizes[index] - HEAD_BYTES) != u32_at(batch, 17):
                return index
            at += sizes[index]
    return -1

cpdef Py_ssize_t bad_batch(content, sizes, bases) except? -1
