# C types for stored_messages.py.
cimport cython
from mainstem.wire.messages.message cimport Message
from mainstem.wire.native cimport same_at

cdef int _VARINT_BITS, _VARLONG_BITS

cdef class RecordReader:
    cdef bytes _body
    cdef Py_ssize_t _at, _end

    @cython.locals(
        base_offset="long long", base_timestamp="long long", is_stamped=bint, stamp="long long", count="long long", found=list, last="long long",
        headers=bytes, headers_size=Py_ssize_t, body=bytes, data="const unsigned char *", size=Py_ssize_t, end=Py_ssize_t, at=Py_ssize_t,
        delta="unsigned long long", raw="unsigned long long", offset="long long", message=Message,
    )
    cpdef list messages(self, header, lane)

    @cython.locals(
        data="const unsigned char *", at=Py_ssize_t, end=Py_ssize_t, value="unsigned long long", shift=int, byte="unsigned long long",
    )
    cdef unsigned long long _varint(self, int bits) except? 0xFFFFFFFFFFFFFFFF

    @cython.locals(raw="unsigned long long", start=Py_ssize_t)
    cdef bytes _piece(self)

    @cython.locals(raw="unsigned long long", fields=Py_ssize_t, field=Py_ssize_t)
    cdef _check_headers(self, Py_ssize_t end)
