# C types for record_walk.py.
cimport cython

@cython.locals(length="long long", byte="long long", shift=int, _=Py_ssize_t)
cpdef walk_records(bytes content, Py_ssize_t position, Py_ssize_t end, Py_ssize_t count, list starts, list ends)
