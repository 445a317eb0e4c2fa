# C types for log_tail.py.
cimport cython
from cpython cimport array as columns
from cpython.ref cimport PyObject
from libc.string cimport memcpy
from mainstem.wire.native cimport append_row, number_at

cdef extern from "Python.h":
    PyObject *PyList_GET_ITEM(list items, Py_ssize_t index) noexcept

cdef Py_ssize_t ROW, BASE, PLACE, SIZE, ARRIVAL, BACK
cdef int CHUNK_BITS
cdef long long CHUNK_ROWS

cdef class LogTail:
    cdef public columns.array rows
    cdef public object refs

    cpdef append(self, long long base, long long place, long long size, long long time)

    @cython.locals(rows=columns.array, at=Py_ssize_t)
    cpdef tuple row(self, Py_ssize_t index)

    @cython.locals(rows=columns.array, at=Py_ssize_t, stop=Py_ssize_t, end="long long")
    cpdef tuple side_by_side(self, Py_ssize_t index, long long limit)

    @cython.locals(rows=columns.array, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cdef Py_ssize_t _count_up_to(self, Py_ssize_t column, long long value)

cdef class Arrivals:
    cdef public long long first
    cdef long long _next, _gone
    cdef list _chunks, _spares
    cdef columns.array _room

    @cython.locals(number="long long")
    cpdef long long keep(self, long long newest, long long base, long long place, long long size, long long time) except -1

    cdef _begin_chunk(self)

    @cython.locals(chunk=columns.array)
    cdef long long _at(self, long long number, Py_ssize_t column) except? -1

    @cython.locals(count=Py_ssize_t, number="long long", back="long long")
    cpdef LogTail gather(self, long long newest, LogTail tail)

    @cython.locals(low="long long", high="long long", middle="long long", gone="long long")
    cpdef drop_before(self, long long place)

cdef inline long long *row_of(Arrivals arrivals, long long number) noexcept:
    cdef PyObject *chunk = PyList_GET_ITEM(arrivals._chunks, (number >> CHUNK_BITS) - arrivals._gone)
    return (<columns.array>chunk).data.as_longlongs + ARRIVAL * (number & (CHUNK_ROWS - 1))

cdef inline long long back_at(Arrivals arrivals, long long number) noexcept:
    return row_of(arrivals, number)[BACK]

cdef inline int put_arrival(
    Arrivals arrivals, long long number, long long back, long long base, long long place, long long size, long long time
) except -1:
    cdef long long *row = arrivals._room.data.as_longlongs + ARRIVAL * (number & (CHUNK_ROWS - 1))
    row[0] = base
    row[1] = place
    row[2] = size
    row[3] = time
    row[4] = back
    return 0

cdef inline int copy_rows(Arrivals arrivals, long long newest, Py_ssize_t count, columns.array rows) except -1:
    cdef Py_ssize_t before = rows.ob_size
    columns.resize_smart(rows, before + ROW * count)
    cdef long long *to = rows.data.as_longlongs + before
    cdef long long *row
    while count:
        count -= 1
        row = row_of(arrivals, newest)
        memcpy(to + ROW * count, row, ROW * sizeof(long long))
        newest -= row[BACK]
    return 0
