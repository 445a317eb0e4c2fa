# C types for log_table.py.
cimport cython
from mainstem.storage.sequencer.log_state cimport LogState

cdef extern from *:
    """
    /* Where a log would be: the upper bits of a product, so that numbers with a pattern are spread, too. */
    static inline Py_ssize_t home_of(long long log, int shift) {
        return (Py_ssize_t)(((unsigned long long)log * 0x9E3779B97F4A7C15ULL) >> shift);
    }
    /* -1: not the number of a log, or not an int. */
    static inline long long number_of(PyObject *log) {
        int overflow;
        if (!PyLong_CheckExact(log)) return -1;
        return PyLong_AsLongLongAndOverflow(log, &overflow);
    }
    """
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
