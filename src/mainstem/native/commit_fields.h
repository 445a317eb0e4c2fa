/* The fields of a Commit and an Append as they lie in memory.

   The engine looks at eight of them for each Commit, and to look one up by its name takes as long as to check the batch. What
   is not exactly of these types is looked at by name. */
#pragma once

#include <Python.h>
#include <structmember.h>

#include "log_table.h"

static PyTypeObject *commit_type, *append_type;    /* NULL: the fields were not found */
static Py_ssize_t at_appends, at_others[4], at_log, at_batch;

#define ASKED_LOGS_MAX 64    /* more would push the first ones out of the processor's cache */
#define FIELD(object, at) (*(PyObject **)((char *)(object) + (at)))

/* The position of a field in an object of this type; -1: it is not a slot that holds an object. */
static inline Py_ssize_t field_at(PyObject *type, const char *name) {
    Py_ssize_t at = -1;
    PyObject *member = PyObject_GetAttrString(type, name);
    if (member == NULL) {
        PyErr_Clear();
        return -1;
    }
    if (Py_TYPE(member) == &PyMemberDescr_Type && ((PyMemberDescrObject *)member)->d_member->type == T_OBJECT_EX)
        at = ((PyMemberDescrObject *)member)->d_member->offset;
    Py_DECREF(member);
    return at;
}

static inline void learn_fields(PyObject *commit, PyObject *append) {
    at_appends = field_at(commit, "appends");
    at_others[0] = field_at(commit, "refers");
    at_others[1] = field_at(commit, "state");
    at_others[2] = field_at(commit, "fences");
    at_others[3] = field_at(commit, "changes");
    at_log = field_at(append, "log");
    at_batch = field_at(append, "batch");
    if (at_appends < 0 || at_log < 0 || at_batch < 0) return;
    for (int i = 0; i < 4; i++) if (at_others[i] < 0) return;
    commit_type = (PyTypeObject *)commit;
    append_type = (PyTypeObject *)append;
}

static inline PyObject *only_item(PyObject *items) {
    if (PyTuple_CheckExact(items)) return PyTuple_GET_SIZE(items) == 1 ? PyTuple_GET_ITEM(items, 0) : NULL;
    if (PyList_CheckExact(items)) return PyList_GET_SIZE(items) == 1 ? PyList_GET_ITEM(items, 0) : NULL;
    return NULL;
}

static inline int is_empty(PyObject *items) {
    return items != NULL && (PyTuple_CheckExact(items) || PyList_CheckExact(items)) && Py_SIZE(items) == 0;
}

static inline int is_append(PyObject *append) {
    return Py_TYPE(append) == append_type && FIELD(append, at_log) != NULL && FIELD(append, at_batch) != NULL;
}

/* Borrowed: the Append of a Commit that has one and nothing else. NULL: it is not known to be that. */
static inline PyObject *append_alone(PyObject *commit) {
    if (Py_TYPE(commit) != commit_type || FIELD(commit, at_appends) == NULL) return NULL;
    for (int i = 0; i < 4; i++) if (!is_empty(FIELD(commit, at_others[i]))) return NULL;
    PyObject *append = only_item(FIELD(commit, at_appends));
    return append != NULL && is_append(append) ? append : NULL;
}

/* Borrowed. */
static inline PyObject *log_at(PyObject *append) { return FIELD(append, at_log); }
static inline PyObject *batch_at(PyObject *append) { return FIELD(append, at_batch); }

/* Has the processor bring the logs of the next Commits while the first is looked at: their slots first, then the logs. */
static inline void ask_for_logs(PyObject *slots, int shift, PyObject *commits, Py_ssize_t first) {
    if (!PyList_CheckExact(commits)) return;
    PyObject **found[ASKED_LOGS_MAX];
    int count = 0;
    Py_ssize_t end = PyList_GET_SIZE(commits);
    if (end - first > ASKED_LOGS_MAX) end = first + ASKED_LOGS_MAX;
    for (Py_ssize_t i = first; i < end; i++) {
        PyObject *append = append_alone(PyList_GET_ITEM(commits, i));
        if (append == NULL) continue;
        long long log = number_of(log_at(append));
        if (log < 0) continue;
        found[count] = &PyList_GET_ITEM(slots, home_of(log, shift));
        __builtin_prefetch(found[count++]);
    }
    for (int i = 0; i < count; i++) {
        char *state = (char *)*found[i];
        if (state == (char *)Py_None) continue;
        __builtin_prefetch(state, 1);
        __builtin_prefetch(state + 64, 1);
    }
}
