# C types for framing.py.
cimport cython
from mainstem.wire.native cimport i64_at, same_at, u16_at, u32_at

cdef unsigned int _METHOD, _HEADER, _BODY, _END, _CONTENT_BYTES, _BASIC_WEIGHTLESS, _PUBLISH, _ACK, _REJECT, _NACK, _TAGGED_BYTES
cdef Py_ssize_t _EMPTY_BYTES

cdef class Assembly:
    cdef public bytes method, properties
    cdef public long long missing
    cdef public list parts

cdef class FrameReader:
    cdef public long long payload_bytes_max, wanted
    cdef public bint stopped
    cdef dict _channels, _assemblies
    cdef object _sink
    cdef long long _message_bytes_max, _body_size
    cdef unsigned int _number
    cdef bytes _method, _properties, _lead
    cdef list _bodies, _tags

    cpdef read(self, bytes buffer)

    @cython.locals(
        position=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, data="const unsigned char *", kind="unsigned int",
        number="unsigned int", length="unsigned int", identity="unsigned int", payload_bytes_max="long long", lead=bytes,
    )
    cdef Py_ssize_t _read(self, bytes buffer) except -1

    cdef bint _hand_over(self) except -1

    @cython.locals(
        data="const unsigned char *", length="unsigned int", start=Py_ssize_t, end=Py_ssize_t, first=Py_ssize_t, body_size="long long", body=bytes,
        properties_at=Py_ssize_t, properties_end=Py_ssize_t, kind="unsigned int", other="unsigned int", class_and_weight="unsigned int",
    )
    cdef Py_ssize_t _read_message(self, bytes buffer, Py_ssize_t position, Py_ssize_t method_end, Py_ssize_t size, unsigned int number) except -1

    @cython.locals(method=bytes, properties=bytes)
    cdef bint _take(
        self, unsigned int number, bytes buffer, Py_ssize_t first, Py_ssize_t method_end, Py_ssize_t properties_at, Py_ssize_t properties_end,
        bytes body,
    ) except -1

    @cython.locals(data="const unsigned char *", tag="unsigned long long")
    cdef bint _take_tag(self, unsigned int number, bytes buffer, Py_ssize_t at) except -1
