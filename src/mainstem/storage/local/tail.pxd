# C types for tail.py.
cimport cython
from cpython cimport array as columns
from mainstem.storage.log_state cimport LogState
from mainstem.wire.native cimport append_i64, append_u32

cdef class LogTail:
    cdef public columns.array bases, places, sizes, times
    cdef public object refs

    cpdef append(self, long long base, long long place, unsigned int size, long long time)

@cython.locals(
    entry=tuple, base="long long", time="long long", size="unsigned int", count="long long", state=LogState, tail=LogTail,
)
cpdef show_entries(list entries, long long place, note)

@cython.locals(
    bases="const long long[::1]", times="const long long[::1]", sizes="const unsigned int[::1]", counts="const unsigned int[::1]",
    index=Py_ssize_t, tail=LogTail,
)
cpdef replay_places(dict tails, dict nexts, head, long long place)
