"""Requests that are not: whatever their bytes, a connection is closed or answered, and nothing else happens."""

import asyncio
import struct

from hypothesis import given
from hypothesis import strategies as st

from mainstem.wire.kafka import ApiKey, encode_request
from tests.contract.sessions.kafka_case import StubBroker, fetch, opener, produce
from tests.unit.protocols.kafka.client import Connect, with_adapter

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


@with_adapter
async def test_cut_requests_of_every_api_close_the_connection_or_are_answered(connect: Connect) -> None:
    announced = (await connect().ask(ApiKey.API_VERSIONS, 4)).api_keys
    for entry in announced:
        for version in {max(entry.min_version, 3 if entry.api_key == 0 else 0), entry.max_version}:
            fields = {"acks": 1} if entry.api_key == ApiKey.PRODUCE else {}
            body = bytes(encode_request(entry.api_key, version, fields, correlation_id=1))
            for cut in range(8, len(body)):
                client = connect()
                client.send_bytes(struct.pack(">i", cut) + body[:cut])
                async with asyncio.timeout(5):
                    while client.session.busy and not client.session.finished:  # noqa: ASYNC110
                        await asyncio.sleep(0)
                client.pump()
                assert client.session.finished or client.output
                client.session.closed()
