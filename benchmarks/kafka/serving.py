"""How a Kafka client is served: end-to-end times, what an idle connection costs, and what one that never reads does to others."""

from __future__ import annotations

import contextlib
import resource

from benchmarks.kafka.brokers import Running, mainstem, prototype
from benchmarks.kafka.clients import API_VERSIONS, connect, create_topics, framed, librdkafka
from benchmarks.report import Figure

P50_RATIO_MAX = 2.0
P99_RATIO_MAX = 4.0
IDLE_KB_MAX = 20.0
BESIDE_SLOW_READERS_MIN = 0.8
RATE = 1_000
SLOW_READERS = 4
FETCH = 1
FETCH_VERSION = 4
FETCHES_UNREAD = 20


async def kafka_latency(parent: str | None, messages: int) -> list[Figure]:
    """From send to arrival at a consumer, synced, 1,000 messages a second."""
    with prototype(parent, 1) as bare:
        base = _latency(bare, messages)
    with mainstem(parent) as ours:
        create_topics(ours, {"load": 1})
        times = _latency(ours, messages)
    return [
        Figure("end to end, p50 us", times["arrival_p50"], base["arrival_p50"], ratio_at_most=P50_RATIO_MAX),
        Figure("end to end, p99 us", times["arrival_p99"], base["arrival_p99"], ratio_at_most=P99_RATIO_MAX),
    ]


def _latency(broker: Running, messages: int) -> dict[str, float]:
    librdkafka("latency", broker.address, "load", 100, RATE, RATE)  # warm
    return librdkafka("latency", broker.address, "load", 100, messages, RATE)


async def kafka_connections(parent: str | None, clients: int) -> list[Figure]:
    """Memory of connected clients that are silent after the first exchange."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    hello = framed(API_VERSIONS, 3, {"client_software_name": "bench", "client_software_version": "1"})
    with mainstem(parent) as ours, contextlib.ExitStack() as held:
        before = ours.resident_kb()
        connections = [held.enter_context(connect(ours)) for _ in range(clients)]
        for connection in connections:
            connection.sendall(hello)
        for connection in connections:
            connection.recv(65_536)
        each = (ours.resident_kb() - before) / clients
    return [Figure(f"idle client of {clients}, KB", each, at_most=IDLE_KB_MAX)]


async def kafka_slow_readers(parent: str | None, millions: float) -> list[Figure]:
    """Producing beside consumers that ask for all and read nothing, and alone: before them and after them.

    With time merging comes in, and slows producers; so neither before nor after alone would be the same load.
    """
    count = int(millions * 1e6)
    with mainstem(parent) as ours:
        create_topics(ours, {"load": 1})
        librdkafka("produce", ours.address, "load", 1, 100, count, 5)
        before_them = librdkafka("produce", ours.address, "load", 1, 100, count, 5)["rate"]
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50 << 20}
        body = {
            "replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": 0,
            "topics": [{"topic": "load", "partitions": [partition]}],
        }  # fmt: skip
        before = ours.resident_kb()
        with contextlib.ExitStack() as held:
            for _ in range(SLOW_READERS):
                connection = held.enter_context(connect(ours))
                connection.sendall(b"".join(framed(FETCH, FETCH_VERSION, body, n) for n in range(FETCHES_UNREAD)))
            beside = librdkafka("produce", ours.address, "load", 1, 100, count, 5)["rate"]
            grown = (ours.resident_kb() - before) / 1024
        after_them = librdkafka("produce", ours.address, "load", 1, 100, count, 5)["rate"]
    return [
        Figure(
            f"produce beside {SLOW_READERS} that never read: messages/s",
            beside,
            (before_them + after_them) / 2,
            at_least=BESIDE_SLOW_READERS_MIN,
        ),
        Figure("memory they cost, MB", grown),
    ]
