# C types for watches.py.
from mainstem.storage.sequencer.log_state cimport LogState

cdef class Watches:
    cdef object _lookup
    cdef list _touched

    cpdef note(self, LogState state)

    cpdef tell(self)
