# C types for log_state.py. What a commit touches stands first and together, in one or two lines of the processor's cache.
cdef class LogState:
    cdef public object tail, watchers, log
    cdef public long long next, end, bytes, plain_bytes_max
    cdef public int rank
    cdef public object config, expiry_ms, batch_bytes_max
    cdef public object open, producers, transactions
    cdef public long long start, visible_start, floor
