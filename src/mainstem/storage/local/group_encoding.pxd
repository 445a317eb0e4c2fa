# C types for group_encoding.py.
cimport cython
from mainstem.storage.pending_group cimport PendingGroup

@cython.locals(parts=list, crcs=list, entries=list, buffers=list, data_offset=Py_ssize_t, size=Py_ssize_t, padding=Py_ssize_t)
cpdef tuple encode_group(PendingGroup group, generation, sequence, proven, time_ms)
