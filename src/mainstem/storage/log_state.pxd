# C types for log_state.py. What a commit touches stands first and together, in a few lines of the processor's cache.
cimport cython
from cpython cimport array as columns
from mainstem.wire.native cimport append_row

cdef enum:
    LOOSE_MAX = 4
    ROW = 4

cdef class LogState:
    cdef public object own_tail, watchers, log
    cdef public long long next, end, bytes, plain_bytes_max
    cdef public int rank
    cdef int _loose
    cdef long long _loose_rows[LOOSE_MAX * ROW]
    cdef public object config, expiry_ms, batch_bytes_max
    cdef public object open, producers, transactions
    cdef public long long start, visible_start, floor

    @cython.locals(rows=columns.array, at=int)
    cdef _settle(self)

cdef inline int keep_row(LogState state, long long base, long long place, long long size, long long time) except -1:
    if state._loose == LOOSE_MAX:
        state._settle()
    cdef long long *row = state._loose_rows + ROW * state._loose
    row[0] = base
    row[1] = place
    row[2] = size
    row[3] = time
    state._loose += 1
    return 0
