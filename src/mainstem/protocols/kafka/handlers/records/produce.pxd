# C types for produce.py.
cimport cython
from mainstem.protocols.kafka.codec.fields cimport skip_tags
from mainstem.protocols.kafka.codec.produce cimport decode_produce, encode_produce
from mainstem.protocols.kafka.session.machine cimport Reply

cdef class ProduceHandler:
    cdef object _publish, _topics, _topics_by_id, _now_ms, _transactions, _stages, _intake, _heavy_work

    @cython.locals(position=Py_ssize_t)
    cpdef handle(self, data, Reply reply)

    @cython.locals(outcomes=list, commits=list, places=list, joining=list, staged=list, answers=list)
    cdef _take(self, request, int version, correlation_id, Reply reply, dict opened)

    cdef _open(self, request, int version, correlation_id, Reply reply)

    cdef _find(self, name)

cdef _check_times(topic, records, long long now_ms)

cdef _note(answer, list places)
