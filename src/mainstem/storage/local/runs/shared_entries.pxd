# C types for shared_entries.py.
cimport cython
from cpython cimport array as columns
from mainstem.wire.native cimport append_small, number_at, small_number_at

cdef inline int append_number(columns.array column, long long number) except -1:
    cdef Py_ssize_t count = column.ob_size
    columns.resize_smart(column, count + 1)
    column.data.as_longlongs[count] = number
    return 0

cdef inline void add_one(columns.array column, Py_ssize_t index) noexcept:
    column.data.as_uints[index] += 1

cdef class LogEntries:
    cdef readonly columns.array firsts, nexts, sizes, units, foreign

@cython.locals(
    logs=columns.array, bases=columns.array, sizes=columns.array, counts=columns.array, crcs=columns.array, places=dict,
    ref_logs=columns.array, ref_bases=columns.array, ref_sizes=columns.array, ref_counts=columns.array, ref_crcs=columns.array,
    at=Py_ssize_t, index=Py_ssize_t,
)
cpdef Py_ssize_t find_sources(data, refs, Py_ssize_t first, columns.array sources) except? -1

@cython.locals(
    at=Py_ssize_t, ref_at=Py_ssize_t, own_count=Py_ssize_t, ref_count=Py_ssize_t, covered="long long", base="long long", batch=Py_ssize_t,
    ref=Py_ssize_t,
)
cpdef bint take_batches(
    LogEntries entries, columns.array bases, columns.array counts, columns.array sizes, columns.array own, columns.array refs,
    columns.array ref_bases, columns.array ref_sources, Py_ssize_t first_unit,
) except -1

@cython.locals(units=columns.array, nexts=columns.array, at=Py_ssize_t)
cpdef add_takers(LogEntries entries, long long start, columns.array takers)

@cython.locals(
    firsts=columns.array, nexts=columns.array, sizes=columns.array, units=columns.array, parts=columns.array, count=Py_ssize_t, at=Py_ssize_t,
    stop=Py_ssize_t, index=Py_ssize_t, total="long long", size="unsigned long long", unit="unsigned long long",
    seam_bytes="unsigned long long", spread="unsigned long long", is_seam=bint,
)
cpdef columns.array cut(LogEntries entries, long long start, columns.array takers, long long block_bytes, long long shared_min)

@cython.locals(count=Py_ssize_t)
cdef _add_part(columns.array parts, Py_ssize_t stop, int kind)
