/* What an await of an answer does without an exception.

   An iterator raises StopIteration with its value at the end, and the task that awaits it catches it. A type with `am_send`
   returns the value. Cython gives a class no such method, so it is written into the type. */
#pragma once

#include <Python.h>

static PyObject *(*waiter_step)(PyObject *);

static inline PySendResult waiter_send(PyObject *waiter, PyObject *sent, PyObject **result) {
    *result = waiter_step(waiter);
    return *result == NULL ? PYGEN_ERROR : *result == waiter ? PYGEN_NEXT : PYGEN_RETURN;
}

/* `step` returns the waiter itself while there is no answer, then the value. One type of a module can have this. */
static inline void give_send(PyObject *type, PyObject *(*step)(PyObject *)) {
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
static inline PyObject *call_within(PyObject *context, PyObject *function, PyObject *argument) {
    if (PyContext_Enter(context) < 0) return NULL;
    PyObject *value = PyObject_CallOneArg(function, argument);
    if (PyContext_Exit(context) < 0) Py_CLEAR(value);
    return value;
}
