# C types for batch_underway.py.
cimport cython
from mainstem.wire.native cimport grow, put_bytes, put_varint, varint_size

cdef class BatchUnderway:
    cdef public object lane, refers
    cdef public list messages
    cdef public bint is_shared
    cdef public long long timestamp_ms
    cdef public Py_ssize_t count
    cdef bytearray _body

    @cython.locals(
        lead=bytes, body=bytearray, data="unsigned char *", value=bytes, value_size=Py_ssize_t, size=Py_ssize_t, fixed=Py_ssize_t,
        at=Py_ssize_t, count=Py_ssize_t, number=Py_ssize_t, after=Py_ssize_t,
    )
    cpdef Py_ssize_t add_all(self, key, bytes headers, list values, Py_ssize_t first, Py_ssize_t bytes_max) except -1
