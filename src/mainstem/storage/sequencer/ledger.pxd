# C types for ledger.py.
cimport cython
from cpython.ref cimport PyObject
from mainstem.storage.sequencer.log_state cimport LogState
from mainstem.storage.sequencer.log_table cimport LogTable, home_of, number_of
from mainstem.storage.sequencer.commit_group cimport CommitGroup
from mainstem.wire.checksum cimport crc32c_at, has_crc32c
from mainstem.wire.native cimport i32_at, i64_at, put_i64, put_u32, u32_at

cdef extern from "mainstem/native/commit_fields.h":
    void learn_fields(object commit, object append) noexcept
    PyObject *append_alone(object commit) noexcept
    bint is_append(object append) noexcept
    PyObject *log_at(object append) noexcept
    PyObject *batch_at(object append) noexcept
    void ask_for_logs(list slots, int shift, object commits, Py_ssize_t first) noexcept
    const int ASKED_LOGS_MAX

cdef inline object log_of(append):
    return <object>log_at(append) if is_append(append) else append.log

cdef inline object batch_of(append):
    return <object>batch_at(append) if is_append(append) else append.batch

cdef int BATCH_HEADER_BYTES, _CHECKED_FROM, _UNUSUAL_MASK

cdef class Ledger:
    cdef public LogTable logs
    cdef public dict visible, scopes, starts, classes
    cdef public set key_indexed
    cdef public object deleted, on_deleted, on_trimmed
    cdef public bint full
    cdef public long long state_room, deletion_room
    cdef public int default_rank
    cdef long long _commit_bytes_max, _copy_bytes_max
    cdef object _now_ms

    @cython.locals(index=Py_ssize_t, count=Py_ssize_t)
    cpdef Py_ssize_t sequence_until_full(self, commits, Py_ssize_t first, CommitGroup group, long long bytes_max, list results) except -1

    @cython.locals(state=LogState, size=Py_ssize_t, base="long long")
    cpdef sequence(self, commit, CommitGroup group)

cdef inline object one_append(commit):
    return <object>append_alone(commit) if append_alone(commit) != NULL else _one_append(commit)

cpdef _one_append(commit)

@cython.locals(
    buffer=bytearray, data="unsigned char *", length="int", crc="unsigned int", delta="int", time="long long", count="int", base="long long",
)
cdef long long _append_plain(LogState state, batch, Py_ssize_t size, CommitGroup group) except -2
