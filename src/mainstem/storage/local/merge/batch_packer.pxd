# C types for batch_packer.py.
cimport cython
from cpython cimport array as columns
from mainstem.wire.native cimport append_small, number_at, put_i64, small_number_at
from mainstem.storage.local.runs.shared_entries cimport LogEntries

cdef extern from "mainstem/native/prefetch.h":
    void prefetch(const void *place) noexcept

cdef extern from "Python.h":
    Py_buffer *PyMemoryView_GET_BUFFER(object view) noexcept

cdef extern from "string.h":
    void *memcpy(void *to, const void *source, size_t size) noexcept

cdef enum:
    ASKED_AHEAD = 12    # so many batches ahead the processor is asked for what is known of one; half as many ahead, for its bytes

cdef inline unsigned char *start_of(view) noexcept:
    return <unsigned char *>PyMemoryView_GET_BUFFER(view).buf

cdef inline void ask_for_batch(
    columns.array bases, columns.array counts, columns.array times, columns.array positions, columns.array sizes, content,
    columns.array indices, Py_ssize_t at,
) noexcept:
    cdef Py_ssize_t index
    cdef unsigned char *batch
    if at + ASKED_AHEAD < indices.ob_size:
        index = indices.data.as_uints[at + ASKED_AHEAD]
        prefetch(&bases.data.as_longlongs[index])
        prefetch(&counts.data.as_uints[index])
        prefetch(&times.data.as_longlongs[index])
        prefetch(&positions.data.as_ulonglongs[index])
        prefetch(&sizes.data.as_uints[index])
    if at + ASKED_AHEAD // 2 < indices.ob_size:
        batch = start_of(content) + positions.data.as_ulonglongs[indices.data.as_uints[at + ASKED_AHEAD // 2]]
        prefetch(batch)
        prefetch(batch + 64)
        prefetch(batch + 128)

cdef inline void copy_from(content, long long position, Py_ssize_t size, bytearray block, Py_ssize_t at) noexcept:
    memcpy(<char *>block + at, start_of(content) + position, size)

cdef inline void put_base(bytearray block, Py_ssize_t at, long long base) noexcept:
    put_i64(<unsigned char *><char *>block, at, base)

@cython.locals(index=Py_ssize_t, known=columns.array)
cpdef dict indices_by_log(columns.array logs)

@cython.locals(alive=columns.array, at=Py_ssize_t, index=Py_ssize_t)
cpdef columns.array reaching(columns.array indices, columns.array bases, columns.array counts, long long start)

cdef class BatchPacker:
    cdef object _series
    cdef bytearray _block
    cdef Py_ssize_t _block_bytes, _filled, _batches
    cdef long long _first, _next, _time

    cpdef begin_log(self)

    @cython.locals(
        bases=columns.array, counts=columns.array, times=columns.array, positions=columns.array, sizes=columns.array, total=Py_ssize_t,
        count=Py_ssize_t, at=Py_ssize_t, index=Py_ssize_t, base="long long", position="long long", size=Py_ssize_t, time="long long",
    )
    cpdef take(self, file, columns.array indices)

    @cython.locals(
        counts=columns.array, times=columns.array, positions=columns.array, sizes=columns.array, total=Py_ssize_t, at=Py_ssize_t,
        index=Py_ssize_t, base="long long", position="long long", size=Py_ssize_t, is_foreign=bint,
    )
    cpdef take_entries(self, file, LogEntries entries, Py_ssize_t begin, Py_ssize_t stop, Py_ssize_t first_unit)

    cdef _add(
        self, content, long long position, Py_ssize_t size, long long base, unsigned int count, long long time, bint is_foreign
    )

    @cython.locals(placed=bytearray)
    cdef _add_large(self, batch, long long base, long long time, bint is_foreign)

    cpdef long long flush(self) except -1
