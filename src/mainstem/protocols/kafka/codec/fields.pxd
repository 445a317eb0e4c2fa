# C types for cursor.py.
cimport cython

@cython.locals(length=Py_ssize_t, end=Py_ssize_t)
cpdef tuple text_at(data, Py_ssize_t position, bint flexible)

@cython.locals(count=Py_ssize_t)
cpdef tuple count_at(data, Py_ssize_t position, bint flexible, int element_bytes_min)

@cython.locals(length=Py_ssize_t, end=Py_ssize_t)
cpdef tuple bytes_at(data, Py_ssize_t position, bint flexible)

cpdef tuple varint_at(data, Py_ssize_t position)

cpdef Py_ssize_t skip_tags(data, Py_ssize_t position) except -1
