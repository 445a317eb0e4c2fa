"""One question by hand, for what no client library asks."""

import socket
from typing import Any

from mainstem.wire.kafka import ApiKey, decode_response, encode_request

PATIENCE_S = 30


def ask(address: str, key: ApiKey, version: int, **body: Any) -> Any:
    host, _, port = address.rpartition(":")
    request = encode_request(key, version, body, correlation_id=1, client_id="by hand")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(len(request).to_bytes(4, "big") + request)
        stream = connection.makefile("rb")
        size = int.from_bytes(stream.read(4), "big")
        _, answer = decode_response(key, version, stream.read(size))
    return answer
