# C types for tail.py.
cimport cython
from cpython cimport array as columns
from mainstem.storage.log_state cimport LogState, keep_row
from mainstem.wire.native cimport append_row, number_at

cdef Py_ssize_t ROW, BASE, PLACE, SIZE

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

@cython.locals(
    entry=tuple, base="long long", time="long long", size="long long", count="long long", state=LogState,
)
cpdef show_entries(list entries, long long place, note)

@cython.locals(
    bases="const long long[::1]", times="const long long[::1]", sizes="const unsigned int[::1]", counts="const unsigned int[::1]",
    index=Py_ssize_t, tail=LogTail,
)
cpdef replay_places(dict tails, dict nexts, head, long long place)
