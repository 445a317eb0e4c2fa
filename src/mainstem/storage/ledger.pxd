# C types for ledger.py.
cimport cython
from mainstem.storage.log_state cimport LogState
from mainstem.storage.pending_group cimport PendingGroup
from mainstem.wire.checksum cimport crc32c_at, has_crc32c
from mainstem.wire.native cimport i32_at, i64_at, put_i64, put_u32, u32_at

cdef int BATCH_HEADER_BYTES, _CHECKED_FROM, _UNUSUAL_MASK

cdef class Ledger:
    cdef public dict logs, visible, scopes, starts, classes
    cdef public set key_indexed
    cdef public object deleted, on_deleted, on_trimmed
    cdef public bint full
    cdef public int default_rank
    cdef long long _commit_bytes_max, _copy_bytes_max
    cdef object _now_ms

    @cython.locals(index=Py_ssize_t, count=Py_ssize_t)
    cpdef Py_ssize_t sequence_until_full(self, commits, Py_ssize_t first, PendingGroup group, long long bytes_max, list results) except -1

    @cython.locals(state=LogState, size=Py_ssize_t, base="long long")
    cpdef sequence(self, commit, PendingGroup group)

@cython.locals(
    buffer=bytearray, data="unsigned char *", length="int", crc="unsigned int", delta="int", time="long long", count="int", base="long long",
)
cdef long long _append_plain(LogState state, batch, Py_ssize_t size, PendingGroup group) except -2
