/* Where a table of logs has a log of a number. */
#pragma once

#include <Python.h>

/* The slot where the search begins: the upper bits of a product, so that numbers with a pattern are spread, too. */
static inline Py_ssize_t home_of(long long log, int shift) {
    return (Py_ssize_t)(((unsigned long long)log * 0x9E3779B97F4A7C15ULL) >> shift);
}

/* -1: not the number of a log, or not an int. */
static inline long long number_of(PyObject *log) {
    int overflow;
    if (!PyLong_CheckExact(log)) return -1;
    return PyLong_AsLongLongAndOverflow(log, &overflow);
}
