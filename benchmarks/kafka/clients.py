"""Load for a Kafka port: librdkafka from C, and requests that were made beforehand, sent as bytes."""

from __future__ import annotations

import functools
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kafka.brokers import Running
from mainstem.wire.kafka import encode_request
from mainstem.wire.record_batch import encode_batch

SOURCE = Path(__file__).parents[1] / "clients" / "kafka_load.c"
PRODUCE, CREATE_TOPICS, API_VERSIONS = 0, 19, 18
PRODUCE_VERSION = 7
RECEIVE_BYTES = 1 << 20
CREATE_STEP = 100
"""Topics of one request."""


class CannotBuild(Exception):
    """No compiler, or no librdkafka to build against."""


@functools.cache
def _built() -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        raise CannotBuild("there is no C compiler (cc)")
    target = str(Path(tempfile.mkdtemp(prefix="mainstem-load-")) / "kafka_load")
    command = [compiler, "-O2", str(SOURCE), "-o", target, "-lrdkafka", "-lpthread"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise CannotBuild("kafka_load.c does not build; librdkafka's headers are in Debian's librdkafka-dev")
    return target


def librdkafka(*words: object, timeout: float = 200) -> dict[str, float]:
    """Run the C client; answers its figures."""
    command = [_built(), *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command[1:])}: {ended.stdout} {ended.stderr}")
    return {name: float(value) for name, value in (pair.split("=") for pair in ended.stdout.split())}


def framed(api: int, version: int, body: dict[str, object], correlation: int = 1) -> bytes:
    """One request with its length."""
    request = encode_request(api, version, body, correlation_id=correlation, client_id="bench")
    return struct.pack(">i", len(request)) + bytes(request)


def connect(broker: Running) -> socket.socket:
    """A plain connection."""
    connection = socket.create_connection((broker.host, broker.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def create_topics(broker: Running, partitions: dict[str, int]) -> None:
    """On our broker; the bare one makes them by itself."""
    names = list(partitions)
    with connect(broker) as connection:
        for first in range(0, len(names), CREATE_STEP):
            topics = [
                {
                    "name": name,
                    "num_partitions": partitions[name],
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
                for name in names[first : first + CREATE_STEP]
            ]
            body = {"topics": topics, "timeout_ms": 60_000, "validate_only": False}
            connection.sendall(framed(CREATE_TOPICS, 5, body))
            received(connection)


def received(connection: socket.socket) -> bytes:
    """The next response, without its length."""
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        assert more, "the broker closed the connection"
        data += more
    return data


def produce_request(places: Sequence[tuple[str, int]], records: int, size: int, correlation: int) -> bytes:
    """A Produce request with one batch for each (topic, partition), acks=all."""
    value = os.urandom(size)
    batch = bytes(encode_batch([(i, 1_700_000_000_000 + i, None, value, ()) for i in range(records)]))
    by_topic: dict[str, list[dict[str, object]]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append({"index": partition, "records": batch})
    topics = [{"name": name, "partition_data": data} for name, data in by_topic.items()]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 60_000, "topic_data": topics}
    return framed(PRODUCE, PRODUCE_VERSION, body, correlation)


def send_all(broker: Running, requests: Sequence[bytes], window: int) -> None:
    """Send requests in order on one connection, with at most `window` unanswered, and wait for all answers."""
    with connect(broker) as connection:
        connection.setblocking(False)
        sent = answered = 0
        out: memoryview = memoryview(b"")
        received = bytearray()
        while answered < len(requests):
            if not out and sent < len(requests) and sent - answered < window:
                room = min(window - (sent - answered), len(requests) - sent)
                out = memoryview(b"".join(requests[sent : sent + room]))
                sent += room
            readable, writable, _ = select.select([connection], [connection] if out else [], [], 60)
            assert readable or writable, "the broker does not answer"
            if writable:
                out = out[connection.send(out[:RECEIVE_BYTES]) :]
            if readable:
                data = connection.recv(RECEIVE_BYTES)
                assert data, "the broker closed the connection"
                received += data
                answered += _drop_answers(received)


def _drop_answers(received: bytearray) -> int:
    position = count = 0
    while len(received) - position >= 4:
        (size,) = struct.unpack_from(">i", received, position)
        if position + 4 + size > len(received):
            break
        position += 4 + size
        count += 1
    del received[:position]
    return count
