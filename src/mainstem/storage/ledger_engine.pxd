# C types for ledger_engine.py.
cimport cython
from mainstem.storage.answer_core cimport AnswerCore
from mainstem.storage.ledger cimport Ledger
from mainstem.storage.pending_group cimport PendingGroup

cdef class LedgerEngine:
    cdef object _loop
    cdef public object _runtime, _full, _refusal, _failure
    cdef public Ledger _ledger
    cdef public PendingGroup _open
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

    @cython.locals(index=Py_ssize_t, count=Py_ssize_t, group=PendingGroup, answer=AnswerCore)
    cpdef commit(self, commits, bint patient=*)

    @cython.locals(group=PendingGroup)
    cpdef _answer_when_durable(self, AnswerCore answer, value)

    cdef _schedule(self)

    @cython.locals(group=PendingGroup, behind=Py_ssize_t)
    cdef _flush(self)

    cdef bint _waits_for_sender(self)

    cpdef _begin(self, PendingGroup group)

    cpdef _durable(self, PendingGroup group)

    @cython.locals(group=PendingGroup)
    cdef bint _has_half(self)

    @cython.locals(group=PendingGroup, answers=Py_ssize_t)
    cdef _count_callers(self)
