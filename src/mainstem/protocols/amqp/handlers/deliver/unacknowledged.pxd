# C types for unacknowledged.py.
cimport cython
from mainstem.wire.messages.message cimport Message as Queued

cdef class Unacknowledged:
    cdef dict _messages

    @cython.locals(message=Queued, waiting=dict)
    cpdef add(self, unsigned long long tag, holder, list messages)

    @cython.locals(tags=list)
    cpdef list until(self, tag)

    @cython.locals(waiting=dict, taken=list)
    cpdef list take(self, list tags)

@cython.locals(message=Queued, count=Py_ssize_t, found=list)
cpdef list shares(list messages)
