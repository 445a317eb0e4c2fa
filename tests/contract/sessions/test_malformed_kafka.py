"""Requests with changed bytes: the connection is closed or answered, and nothing else happens."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from mainstem.wire.kafka import ApiKey, encode_request
from tests.contract.sessions.kafka_case import StubBroker, fetch, opener, produce

VALID = [
    bytes(encode_request(key, version, body, correlation_id=1, client_id="c"))
    for key, version, body in (
        (ApiKey.PRODUCE, 3, produce(3, 1)),
        (ApiKey.PRODUCE, 9, produce(9, -1)),
        (ApiKey.PRODUCE, 13, produce(13, 0)),
        (ApiKey.FETCH, 4, fetch(0, 0, 1)),
        (ApiKey.FETCH, 12, fetch(0, 0, 5)),
        (ApiKey.FETCH, 17, fetch(0, 0)),
        (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["a", "b"]}),
    )
]


@given(data=st.data())
def test_changed_requests_never_fail_in_another_way(data: st.DataObject) -> None:
    request = bytearray(data.draw(st.sampled_from(VALID)))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(request) - 1))
        request[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(8, len(request)))
    frame = struct.pack(">i", cut) + request[:cut]
    session = opener(StubBroker())(lambda: None)
    assert session.data_received(memoryview(bytearray(frame))) == len(frame)
    session.closed()
