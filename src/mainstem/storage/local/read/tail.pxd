# C types for tail.py.
cimport cython
from mainstem.storage.sequencer.log_state cimport LogState, keep_row
from mainstem.storage.sequencer.log_tail cimport Arrivals, LogTail

cdef Py_ssize_t ASKED_AHEAD

cdef extern from "mainstem/native/prefetch.h":
    void prefetch_state(list entries, Py_ssize_t index) noexcept

@cython.locals(
    count=Py_ssize_t, index=Py_ssize_t, base="long long", time="long long", size="long long", records="long long", state=LogState,
)
cpdef show_entries(Arrivals arrivals, list entries, long long place, note)

@cython.locals(
    bases="const long long[::1]", times="const long long[::1]", sizes="const unsigned int[::1]", counts="const unsigned int[::1]",
    index=Py_ssize_t, tail=LogTail,
)
cpdef replay_places(dict tails, dict nexts, head, long long place)
