# C types for message.py.
cimport cython

@cython.freelist(1024)
cdef class Message:
    cdef public object lane, key, headers, value, holder
    cdef public long long offset, timestamp_ms, expires_ms
    cdef public long long deliveries, failures

@cython.locals(message=Message, made=list)
cpdef list new_messages(lane, long long timestamp_ms, key, headers, values, long long expires_ms)

@cython.locals(message=Message, model=Message, made=list)
cpdef list copy_messages(lane, list models)
