# C types for log_table.py.
cimport cython
from mainstem.storage.sequencer.log_state cimport LogState

cdef extern from "mainstem/native/log_table.h":
    Py_ssize_t home_of(long long log, int shift) noexcept
    long long number_of(object log) noexcept

cdef class LogTable(dict):
    cdef list slots
    cdef int shift
    cdef Py_ssize_t _mask

    @cython.locals(slots=list, mask=Py_ssize_t, slot=Py_ssize_t, number="long long", state=LogState)
    cdef LogState find(self, log)

    @cython.locals(slots=list, mask=Py_ssize_t, slot=Py_ssize_t, free=Py_ssize_t, state=LogState)
    cpdef remove(self, log)

    cpdef add(self, LogState state)

    @cython.locals(slots=list, mask=Py_ssize_t, slot=Py_ssize_t)
    cdef _put(self, LogState state)

    @cython.locals(state=LogState)
    cdef _resize(self, Py_ssize_t count)
