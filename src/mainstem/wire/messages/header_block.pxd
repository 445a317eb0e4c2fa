# C types for header_block.py.
cimport cython
from mainstem.wire.native cimport same_at

@cython.locals(
    data="const unsigned char *", end=Py_ssize_t, size=Py_ssize_t, at=Py_ssize_t, number=Py_ssize_t, is_it=bint, raw="unsigned long long", shift=int,
    byte="unsigned long long",
)
cpdef find_header(bytes block, bytes name)
