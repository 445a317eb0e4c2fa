# C types for produce.py.
cimport cython
from mainstem.protocols.kafka.codec.fields cimport bytes_at, count_at, skip_tags, text_at


@cython.locals(flexible=bint, topics=list)
cpdef decode_produce(data, Py_ssize_t position, int version)

@cython.locals(partitions=list, length=Py_ssize_t)
cdef tuple _partitions_classic(data, Py_ssize_t position, Py_ssize_t count)

@cython.locals(partitions=list)
cdef tuple _partitions_flexible(data, Py_ssize_t position, Py_ssize_t count)

@cython.locals(out=bytearray)
cpdef encode_produce(int version, correlation_id, list topics, throttle_ms=*)

cdef _encode_classic(bytearray out, int version, list topics)

cdef _encode_flexible(bytearray out, list topics)
