# C types for answer_core.py.
cimport cython

cdef extern from *:
    """
    /* An iterator whose end carries a value has to raise it, and whoever awaits it to catch it. One that has `am_send` says it. */
    static PyObject *(*waiter_step)(PyObject *);

    static PySendResult waiter_send(PyObject *waiter, PyObject *sent, PyObject **result) {
        *result = waiter_step(waiter);
        return *result == NULL ? PYGEN_ERROR : *result == waiter ? PYGEN_NEXT : PYGEN_RETURN;
    }

    static void give_send(PyObject *type, PyObject *(*step)(PyObject *)) {
        static PyAsyncMethods methods;
        PyTypeObject *waiter = (PyTypeObject *)type;
        if (waiter->tp_as_async != NULL) methods = *waiter->tp_as_async;
        methods.am_send = waiter_send;
        waiter_step = step;
        waiter->tp_as_async = &methods;
    #ifdef Py_TPFLAGS_HAVE_AM_SEND
        waiter->tp_flags |= Py_TPFLAGS_HAVE_AM_SEND;
    #endif
        PyType_Modified(waiter);
    }

    /* As `context.run` does. */
    static PyObject *call_within(PyObject *context, PyObject *function, PyObject *argument) {
        if (PyContext_Enter(context) < 0) return NULL;
        PyObject *value = PyObject_CallOneArg(function, argument);
        if (PyContext_Exit(context) < 0) Py_CLEAR(value);
        return value;
    }
    """
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
