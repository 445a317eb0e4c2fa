# C types for sequencer.py.
cimport cython
from mainstem.storage.answer_core cimport AnswerCore
from mainstem.storage.sequencer.commit_group cimport CommitGroup
from mainstem.storage.sequencer.ledger cimport Ledger
from mainstem.storage.sequencer.watches cimport Watches

cdef class Sequencer:
    cdef object _loop, _runtime, _store, _full
    cdef public object refusal, failure
    cdef readonly Ledger ledger
    cdef readonly Watches watches
    cdef CommitGroup _open
    cdef dict _leases
    cdef list _under_way, _waiting_below
    cdef public bint is_closing
    cdef bint _is_behind, _scheduled, _is_patient
    cdef long long _submitted_bytes, _group_bytes_max, _pending_bytes_max
    cdef Py_ssize_t _callers, _half_answers, _halved_callers_min, _half_entries_max, _under_way_max
    cdef double _waiting_since, _submitted_at, _group_seconds, _answered_at

    cpdef bint is_above(self, long long pending_bytes) except -1

    @cython.locals(index=Py_ssize_t, count=Py_ssize_t, group=CommitGroup, answer=AnswerCore)
    cpdef commit(self, commits, bint patient=*)

    @cython.locals(group=CommitGroup)
    cpdef answer_when_durable(self, AnswerCore answer, value)

    cdef _schedule(self)

    @cython.locals(group=CommitGroup, behind=Py_ssize_t)
    cdef _flush(self)

    cdef bint _waits_for_sender(self)

    cpdef begin(self, CommitGroup group)

    cpdef durable(self, CommitGroup group)

    @cython.locals(group=CommitGroup)
    cdef bint _has_half(self)

    @cython.locals(group=CommitGroup, answers=Py_ssize_t)
    cdef _count_callers(self)
