# C types for window.py.
cimport cython
from mainstem.wire.messages.message cimport Message

cdef class Window:
    cdef public object ready, _ahead
    cdef public dict unsettled
    cdef public long long ready_bytes, heads_max, bytes_average, tail, end, opened_at, count, given_out
    cdef public bint is_reading

    cpdef extend(self, long long end)

    @cython.locals(waiting="long long")
    cpdef bint has_room(self, long long messages, long long window) except -1

    cpdef bint holds_less(self, long long memory_bytes) except -1

    @cython.locals(message=Message, longest="long long")
    cpdef note_heads(self, list messages)

    @cython.locals(end="long long")
    cpdef accept(self, long long base, long long count, list messages)

    @cython.locals(message=Message, offset="long long", size="long long")
    cpdef _take_in(self, long long base, list messages)

    @cython.locals(message=Message, taken=list, unsettled=dict, left="long long", length="long long", number=object)
    cpdef list take(self, long long count, long long size, long long now_ms, list expired)

    @cython.locals(message=Message, unsettled=dict, before=Py_ssize_t, gone=Py_ssize_t, number=object)
    cpdef Py_ssize_t let_go(self, list messages, list done) except -1
