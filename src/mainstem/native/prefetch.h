/* Memory that is needed soon: the processor brings it while the code before it runs. */
#pragma once

#include <Python.h>

static inline void prefetch(const void *place) { __builtin_prefetch(place); }

#define STATE_AT 6    /* the place of the LogState in a DataEntry */

/* The memory of the log of one entry, to be written. */
static inline void prefetch_state(PyObject *entries, Py_ssize_t index) {
    char *state = (char *)PyTuple_GET_ITEM(PyList_GET_ITEM(entries, index), STATE_AT);
    __builtin_prefetch(state, 1);
    __builtin_prefetch(state + 64, 1);
}
