# C types for frame.py.
cimport cython
from mainstem.wire.native cimport put_le32, put_le64

cdef int _DATA_ENTRY_BYTES

@cython.locals(
    head=bytearray, data="unsigned char *", entry=tuple, count=Py_ssize_t, index=Py_ssize_t, body_bytes="long long",
    log="unsigned long long", base="long long", time="long long", size="unsigned int", records="unsigned int", crc="unsigned int",
    flag="unsigned char",
)
cpdef tuple encode_data_entries(list entries)
