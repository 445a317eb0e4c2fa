# C types for ledger_engine.py.
cimport cython
from mainstem.storage.answer_core cimport AnswerCore
from mainstem.storage.sequencer.ledger cimport Ledger
from mainstem.storage.sequencer.commit_group cimport CommitGroup

cdef class LedgerEngine:
    cdef object _loop
    cdef public object _runtime, _full, _refusal, _failure
    cdef public Ledger _ledger
    cdef public CommitGroup _open
    cdef public dict _leases
    cdef public list _touched, _under_way, _waiting_below
    cdef public bint _closing, _is_behind
    cdef public long long _submitted_bytes
    cdef long long _group_bytes_max, _pending_bytes_max
    cdef bint _scheduled, _is_patient
    cdef Py_ssize_t _callers, _half_answers
    cdef public Py_ssize_t _under_way_max
    cdef double _waiting_since, _submitted_at, _group_seconds, _answered_at

    cpdef bint is_above(self, long long pending_bytes) except -1

    @cython.locals(index=Py_ssize_t, count=Py_ssize_t, group=CommitGroup, answer=AnswerCore)
    cpdef commit(self, commits, bint patient=*)

    @cython.locals(group=CommitGroup)
    cpdef _answer_when_durable(self, AnswerCore answer, value)

    cdef _schedule(self)

    @cython.locals(group=CommitGroup, behind=Py_ssize_t)
    cdef _flush(self)

    cdef bint _waits_for_sender(self)

    cpdef _begin(self, CommitGroup group)

    cpdef _durable(self, CommitGroup group)

    @cython.locals(group=CommitGroup)
    cdef bint _has_half(self)

    @cython.locals(group=CommitGroup, answers=Py_ssize_t)
    cdef _count_callers(self)
