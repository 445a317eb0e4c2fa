# C types for answer_core.py.
cimport cython

cdef extern from "mainstem/native/waiter.h":
    void give_send(object type, object (*step)(object))
    object call_within(object context, object function, object argument)

cdef int NEW, WAITING, ANSWERED, CANCELLED
cdef list _wakes
cdef object _wakes_loop

cdef class AnswerCore:
    cdef public bint done
    cdef public object loop
    cdef object _value, _error
    cdef list _callbacks, _waiters

    cpdef resolve(self, value)
    cpdef fail(self, error)
    @cython.locals(waiter=Waiter)
    cdef _finish(self)

cdef class Waiter:
    cdef AnswerCore _answer
    cdef public bint _asyncio_future_blocking
    cdef object _callback, _context, _loop, _cancel_message
    cdef int _state

    cpdef set_result(self, _)
    cpdef bint done(self) except -1

@cython.locals(self=Waiter, answer=AnswerCore)
cdef object _step(object waiter)

cdef _wake_soon(Waiter waiter)

@cython.locals(waiter=Waiter)
cpdef _wake_all(list waiters)

@cython.locals(entry=tuple, answer=AnswerCore)
cpdef resolve_all(list answers)
