# C types for commit_group.py.
cdef class CommitGroup:
    cdef public list entries, refs, state, effects, answers
    cdef public object body
    cdef public long long bytes, sequence, place
    cdef public int rank
    cdef public bint is_urgent
