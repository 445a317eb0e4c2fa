# C types for machine.py.
cimport cython

cdef object OPEN, WAITING, MUTED, ENDING, ENDED
cdef object _SIZE
cdef int SIZE_BYTES, PRODUCE_KEY

cdef class Reply:
    cdef KafkaSession _session
    cdef object _parts, _hurry
    cdef public Py_ssize_t size
    cdef public object release, allowance, meter, begun
    cdef public long throttle_ms

cdef class ConnectionState:
    cdef dict _owned
    cdef public bint is_authenticated
    cdef public object endpoints, host, peer, user

cdef class KafkaSession:
    cdef public object input_wanted
    cdef public bint draining
    cdef object _wake, _handle, _handle_request, _state, _resting, _replies
    cdef Py_ssize_t _request_bytes_min, _request_bytes_max, _in_flight_max, _in_flight_bytes_max, _owed_bytes
    cdef int _mutes
    cdef ConnectionState _connection
    cdef list _output
    cdef bint _receiving, _has_more, _input_ended

    @cython.locals(reply=Reply)
    cpdef answered(self)
    cdef bint _may_go_on(self) except -1
    @cython.locals(position=Py_ssize_t, available=Py_ssize_t, left=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _take_requests(self, data) except -1
    @cython.locals(reply=Reply, is_produce=bint)
    cdef bint _begin(self, request) except -1
    cpdef end(self)
    cdef _finish(self)
    cdef _enter(self, state)
    cdef _rest(self)
