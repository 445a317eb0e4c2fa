"""kill -9 under load, again and again: nothing acknowledged is lost, nothing is there twice, no committed offset goes back."""

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.clients.kafka.serving import PATIENCE_S, QUICK_GROUPS, QUICK_RETURN, Broker, serving
from tests.clients.kafka.test_confluent import create, read

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

CYCLES = 10
PRODUCERS = 3
PARTITIONS = 4
PER_CYCLE = 400
"""Acknowledgements that each producer must see between two kills."""


class Load:
    """One idempotent producer that never stops, and remembers what was acknowledged."""

    def __init__(self, broker: Broker, number: int) -> None:
        self.number = number
        self.sent = 0
        self.acknowledged: set[bytes] = set()
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": broker.address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 100,
                "message.timeout.ms": 120_000,
                **QUICK_RETURN,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for _ in range(20):
                value = b"%d-%d" % (self.number, self.sent)
                self._producer.produce("kept", value, partition=self.sent % PARTITIONS, on_delivery=self._note)
                self.sent += 1
            self._producer.poll(0.005)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.add(message.value() or b"")

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0
        assert len(self.acknowledged) == self.sent


def wait_acknowledged(loads: list[Load], counts: list[int]) -> None:
    end = time.monotonic() + PATIENCE_S
    while any(len(load.acknowledged) < count for load, count in zip(loads, counts, strict=True)):
        assert time.monotonic() < end, [len(load.acknowledged) for load in loads]
        time.sleep(0.01)


def committed(consumer: Consumer) -> dict[int, int]:
    """What the broker says was committed; asked again while it is away."""
    places = [TopicPartition("kept", index) for index in range(PARTITIONS)]
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return {place.partition: place.offset for place in consumer.committed(places, timeout=2)}
        except KafkaException:
            assert time.monotonic() < end


def test_ten_kills(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *QUICK_GROUPS) as broker:
        create(broker, "kept", PARTITIONS)
        loads = [Load(broker, number) for number in range(PRODUCERS)]
        reader = Consumer(
            {"bootstrap.servers": broker.address, "group.id": "g", "enable.auto.commit": False, **QUICK_RETURN}
        )
        answered: dict[int, int] = {}
        try:
            for cycle in range(CYCLES):
                wait_acknowledged(loads, [len(load.acknowledged) + PER_CYCLE for load in loads])
                for partition in range(PARTITIONS):
                    reader.commit(offsets=[TopicPartition("kept", partition, cycle + 1)], asynchronous=False)
                    answered[partition] = cycle + 1
                broker.kill()
                broker.start()
                assert committed(reader) == answered
        finally:
            for load in loads:
                load.finish()
            reader.close()
        sent = sum(load.sent for load in loads)
        values = [message.value() or b"" for message in read(broker, "kept", sent, partitions=PARTITIONS)]
        assert len(values) == len(set(values)), "stored twice in spite of idempotence"
        assert set(values) == set().union(*(load.acknowledged for load in loads))
