# C types for delivery_frames.py.
cimport cython
from mainstem.wire.messages.message cimport Message as Queued
from mainstem.wire.native cimport grow, put_bytes, put_i64

cdef int _END

cdef class DeliveryFrames:
    cdef object _make, _encode, _headers
    cdef dict _templates
    cdef long long _deliveries
    cdef Py_ssize_t _size
    cdef bytes _head, _tail

    @cython.locals(
        message=Queued, value=bytes, out=bytearray, at=Py_ssize_t, room=Py_ssize_t, left=Py_ssize_t, size=Py_ssize_t, need=Py_ssize_t,
        encoded=bytes, data="unsigned char *", head=bytes, tail=bytes,
    )
    cdef bytearray _fill(self, list messages, unsigned long long tag)

    cdef bint _find(self, Queued message, Py_ssize_t size) except -1
