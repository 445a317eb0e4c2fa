"""What a produced message costs: broker CPU beside the prototype's, many partitions beside few, single-record requests."""

from __future__ import annotations

import time

from benchmarks.kafka.brokers import Running, mainstem, prototype
from benchmarks.kafka.clients import create_topics, librdkafka, produce_request, send_all
from benchmarks.report import Figure

CPU_RATIO_MAX = 1.3
SUSTAINED_RATIO_MAX = 2.2
MANY_PARTITIONS_MIN = 0.7
SINGLE_RECORD_US_MAX = 25.0
LINGER_MS = 5

FEW = [("few", partition) for partition in range(256)]
MANY = [(f"many-{topic}", partition) for topic in range(1_000) for partition in range(10)]
PARTITIONS_PER_REQUEST = 64
RECORDS_PER_BATCH = 10
WINDOW = 8


async def kafka_produce(parent: str | None, millions: float) -> list[Figure]:
    """One librdkafka producer, acks=all, synced, merge idle: CPU seconds per million messages."""
    figures = []
    for size, share in ((100, 1.0), (1024, 0.25)):
        for partitions in (1, 256):
            count = int(millions * share * 1e6)
            with prototype(parent, partitions) as bare:
                base, _ = _produced(bare, partitions, size, count)
            with mainstem(parent, merging=False) as ours:
                create_topics(ours, {"load": partitions})
                cost, rate = _produced(ours, partitions, size, count)
            name = f"produce, {size} B, {partitions} partition(s)"
            figures.append(Figure(f"{name}: messages/s", rate))
            figures.append(Figure(f"{name}: CPU s per million", cost, base, ratio_at_most=CPU_RATIO_MAX))
    return figures


async def kafka_sustained(parent: str | None, seconds: float) -> list[Figure]:
    """The same for a while, with merging keeping up; the merge's child process is counted."""
    with prototype(parent, 256) as bare:
        base, rate = _produced(bare, 256, 100, 2_000_000)
    with mainstem(parent) as ours:
        create_topics(ours, {"load": 256})
        begin, before = time.perf_counter(), ours.cpu_seconds()
        count = 0
        while time.perf_counter() - begin < seconds:
            step = 5_000_000
            librdkafka("produce", ours.address, "load", 256, 100, step, LINGER_MS)
            count += step
        took = time.perf_counter() - begin
        cost = (ours.cpu_seconds() - before) / count * 1e6
    return [
        Figure(f"produce for {took:.0f} s with merge: messages/s", count / took, rate),
        Figure("produce with merge: CPU s per million", cost, base, ratio_at_most=SUSTAINED_RATIO_MAX),
    ]


async def kafka_partitions(parent: str | None, requests: int) -> list[Figure]:
    """10,000 partitions over 1,000 topics beside 256 of one topic, at equal records per batch and batches per request."""
    rates = []
    for places in (FEW, MANY):
        prepared = []
        for number in range(requests):
            first = number * PARTITIONS_PER_REQUEST
            chosen = [places[(first + step) % len(places)] for step in range(PARTITIONS_PER_REQUEST)]
            prepared.append(produce_request(chosen, RECORDS_PER_BATCH, 100, number))
        with mainstem(parent) as ours:
            create_topics(ours, {name: 1 + max(p for n, p in places if n == name) for name in dict(places)})
            begin = time.perf_counter()
            send_all(ours, prepared, WINDOW)
            rates.append(requests * PARTITIONS_PER_REQUEST * RECORDS_PER_BATCH / (time.perf_counter() - begin))
    few, many = rates
    return [Figure("produce, 10,000 partitions to 256: messages/s", many, few, at_least=MANY_PARTITIONS_MIN)]


async def kafka_single_records(parent: str | None, requests: int) -> list[Figure]:
    """Requests of one record each, pipelined."""
    prepared = [produce_request([("one", 0)], 1, 100, number) for number in range(requests)]
    with mainstem(parent) as ours:
        create_topics(ours, {"one": 1})
        send_all(ours, prepared[:1_000], 256)
        before = ours.cpu_seconds()
        send_all(ours, prepared, 256)
        cost = (ours.cpu_seconds() - before) / requests * 1e6
    return [Figure("produce request of one record, CPU us", cost, at_most=SINGLE_RECORD_US_MAX)]


def _produced(broker: Running, partitions: int, size: int, count: int) -> tuple[float, float]:
    """CPU seconds per million, and messages per second."""
    before = broker.cpu_seconds()
    figures = librdkafka("produce", broker.address, "load", partitions, size, count, LINGER_MS)
    return (broker.cpu_seconds() - before) / count * 1e6, figures["rate"]
