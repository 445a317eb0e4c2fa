# C types for quick_seal.py.
cimport cython
from mainstem.wire.native cimport grow, i64_at, put_bytes, put_varint, u16_at, u32_at, varint_size

cdef unsigned int _CONTENT_TYPE, _HEADERS, _DELIVERY_MODE, _PRIORITY, _REPLY_TO, _TIMESTAMP, _UNUSUAL, _UNDEFINED
cdef long long _NULL
cdef int _OF_ANY_LENGTH, _DEPTH_MAX
cdef list _SIZES

cdef class QuickSeal:
    cdef public int delivery_mode, priority
    cdef bytes _data
    cdef Py_ssize_t _at, _end, _count
    cdef bytearray _out
    cdef list _names
    cdef dict _known

    @cython.locals(
        flags="unsigned int", raw=bytes, out=bytearray, count=bytearray, data="unsigned char *",
    )
    cpdef bytes seal(self, bytes entries, Py_ssize_t entry_count, bytes address, bytes properties)

    @cython.locals(data="const unsigned char *", flags="unsigned int", flag="unsigned int", at=Py_ssize_t)
    cpdef bint is_whole(self, bytes properties) except -1

    @cython.locals(data="const unsigned char *")
    cdef bint _is_table(self, Py_ssize_t at, Py_ssize_t end, int depth) except -1

    @cython.locals(data="const unsigned char *", letter="unsigned int", size="long long", last=Py_ssize_t)
    cdef Py_ssize_t _after(self, Py_ssize_t at, Py_ssize_t end, int depth) except? -2

    @cython.locals(flag="unsigned int", number=int, length="unsigned int", data="const unsigned char *")
    cdef bint _walk(self, unsigned int flags, bytes entries) except -1

    @cython.locals(data="const unsigned char *")
    cdef bint _skip_text(self) except -1

    @cython.locals(start=Py_ssize_t, content=bytes, data="const unsigned char *")
    cdef bint _property(self, unsigned int flag, int number) except -1

    @cython.locals(start=Py_ssize_t, size=Py_ssize_t, value_at=Py_ssize_t, name=bytes, data="const unsigned char *")
    cdef bint _headers(self, Py_ssize_t end) except -1

    @cython.locals(letter="unsigned int", length="unsigned int", after=Py_ssize_t, raw=bytes, data="const unsigned char *")
    cdef bint _header(self, bytes name, Py_ssize_t at, Py_ssize_t end) except -1

    cdef _put(self, bytes name, bytes content)

    @cython.locals(at=Py_ssize_t, length_size=Py_ssize_t, out=bytearray, data="unsigned char *")
    cdef _add(self, bytes name, Py_ssize_t name_size, long long size)
