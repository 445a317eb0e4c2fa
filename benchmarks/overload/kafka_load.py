"""Kafka producers faster than the disk, with and without acknowledgements, and one beside them."""

from __future__ import annotations

import os
import threading
import time

from benchmarks.kafka.brokers import Running
from benchmarks.kafka.clients import API_VERSIONS, PRODUCE, PRODUCE_VERSION, connect, create_topics, framed, received
from benchmarks.overload.amqp_load import PAUSE_SECONDS, run_all
from benchmarks.overload.broker import Outcome, Overloaded
from mainstem.wire.kafka import decode_response
from mainstem.wire.record_batch import encode_batch

TOPIC, BESIDE = "overload", "beside"
LIST_OFFSETS, LIST_OFFSETS_VERSION = 2, 4
LATEST = -1
IN_FLIGHT = 5
"""Requests of a producer that waits for acknowledgements, as clients have them."""


def request(topic: str, partition: int, size: int, acks: int) -> bytes:
    """A Produce request with one record."""
    batch = bytes(encode_batch([(0, 1_700_000_000_000, None, os.urandom(size), ())]))
    data = {"name": topic, "partition_data": [{"index": partition, "records": batch}]}
    body = {"transactional_id": None, "acks": acks, "timeout_ms": 60_000, "topic_data": [data]}
    return framed(PRODUCE, PRODUCE_VERSION, body)


def produce(broker: Running, frame: bytes, messages: int, acks: int) -> None:
    """Send records, then a request whose answer says that the broker took all of them."""
    hello = framed(API_VERSIONS, 0, {})
    with connect(broker) as connection:
        for number in range(messages):
            connection.sendall(frame)
            if acks and number >= IN_FLIGHT:
                received(connection)
        if acks:
            for _ in range(min(messages, IN_FLIGHT)):
                received(connection)
        connection.sendall(hello)  # answered when everything before it is done
        received(connection)


class Beside:
    """Another producer: a record, its acknowledgement, a short pause, and again."""

    def __init__(self, broker: Running) -> None:
        self._connection = connect(broker)
        self._frame = request(BESIDE, 0, 100, -1)
        self._stopping = threading.Event()
        self.times_ms: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            began = time.monotonic()
            self._connection.sendall(self._frame)
            received(self._connection)
            self.times_ms.append((time.monotonic() - began) * 1000)

    def end(self) -> float:
        """Stop; answers the 99th percentile in milliseconds."""
        self._stopping.set()
        self._thread.join()
        self._connection.close()
        times = sorted(self.times_ms)
        return times[int(len(times) * 0.99)]


def end_offset(broker: Running, partition: int) -> int:
    """How many records a partition has."""
    body = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [
            {
                "name": TOPIC,
                "partitions": [{"partition_index": partition, "current_leader_epoch": -1, "timestamp": LATEST}],
            }
        ],
    }
    with connect(broker) as connection:
        connection.sendall(framed(LIST_OFFSETS, LIST_OFFSETS_VERSION, body))
        _, body = decode_response(LIST_OFFSETS, LIST_OFFSETS_VERSION, received(connection))
    offset: int = body.topics[0].partitions[0].offset
    return offset


def flood(broker: Overloaded, *, producers: int, messages: int, size: int, acks: int) -> Outcome:
    """Each producer writes to a partition of its own, `messages` in all, while another producer sends beside them."""
    address = broker.at("kafka")
    create_topics(address, {TOPIC: producers, BESIDE: 1})
    each = messages // producers
    frames = [request(TOPIC, number, size, acks) for number in range(producers)]
    beside = Beside(address)
    try:
        seconds = run_all([lambda frame=frame: produce(address, frame, each, acks) for frame in frames])  # type: ignore[misc]
    finally:
        p99_ms = beside.end()
    stored = sum(end_offset(address, number) for number in range(producers))
    return Outcome(each * producers, stored, seconds, p99_ms)
