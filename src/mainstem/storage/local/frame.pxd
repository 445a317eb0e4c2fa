# C types for frame.py.
cimport cython
from mainstem.storage.sequencer.log_state cimport LogState
from mainstem.wire.checksum cimport crc32c_at, has_crc32c
from mainstem.wire.native cimport put_le32, put_le64

cdef int _CRC_AT, _DATA_ENTRY_BYTES, _HEADER_BYTES

@cython.locals(
    head=bytearray, data="unsigned char *", entry=tuple, count=Py_ssize_t, index=Py_ssize_t, body_bytes="long long",
    state=LogState, base="long long", time="long long", size="unsigned int", records="unsigned int", crc="unsigned int",
    flag="unsigned char",
)
cpdef tuple encode_data_entries(list entries)

@cython.locals(frame=bytearray, data="unsigned char *", size=Py_ssize_t, crc="unsigned int")
cdef tuple _encode_native(
    unsigned int kind, bytes head, unsigned int body_bytes, long long generation, long long sequence, long long proven
)
