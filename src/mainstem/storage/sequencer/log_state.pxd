# C types for log_state.py. What a commit touches stands first and together, in a few lines of the processor's cache.
cimport cython
from mainstem.storage.sequencer.log_tail cimport Arrivals, LogTail

cdef enum:
    LOOSE_MAX = 1024      # so that nobody who asks for a tail has to wait long
    LOOSE_SPREAD = 511    # of these; logs that are written to in turns must not all gather in the same moment

cdef class LogState:
    cdef public long long next, end, bytes, log, plain_bytes_max
    cdef long long _newest
    cdef public int rank
    cdef int _loose
    cdef public object watchers
    cdef Arrivals _arrivals
    cdef public LogTail own_tail
    cdef public object config, expiry_ms, batch_bytes_max
    cdef public object open, producers, transactions
    cdef public long long start, visible_start, floor

    cdef _gather(self)

cdef inline int keep_row(Arrivals arrivals, LogState state, long long base, long long place, long long size, long long time) except -1:
    if state._loose >= LOOSE_MAX - (state.log * 389 & LOOSE_SPREAD):
        state._gather()
    state._newest = arrivals.keep(state._newest, base, place, size, time)
    if state._loose == 0:
        state._arrivals = arrivals
    state._loose += 1
    return 0
