# C types for log_state.py.
cdef class LogState:
    cdef public object log, config, expiry_ms, batch_bytes_max
    cdef public object open, producers, transactions, watchers, tail
    cdef public long long start, visible_start, floor, next, end, bytes, plain_bytes_max
    cdef public int rank
