# C types for group_encoding.py.
cimport cython
from mainstem.storage.sequencer.commit_group cimport CommitGroup

@cython.locals(parts=list, crcs=list, entries=list, buffers=list, data_offset=Py_ssize_t, size=Py_ssize_t, padding=Py_ssize_t)
cpdef tuple encode_group(CommitGroup group, generation, sequence, proven, time_ms, long long joined_bytes_max)
