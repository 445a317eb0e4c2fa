"""Requests that are cut off: a connection is closed or answered, and nothing else happens."""

import asyncio
import struct

from mainstem.wire.kafka import ApiKey, encode_request
from tests.support.clients.kafka_client import Connect, with_adapter


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
