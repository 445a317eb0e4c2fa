# C types for answer_core.py.
cimport cython

cdef class AnswerCore:
    cdef public bint done
    cdef object _value, _error
    cdef list _callbacks, _waiters

    cpdef resolve(self, value)
    cpdef fail(self, error)
    cdef _finish(self)

@cython.locals(entry=tuple, answer=AnswerCore)
cpdef resolve_all(list answers)
