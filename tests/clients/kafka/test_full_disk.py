"""A disk that producers have filled: every acknowledged record stays, and deleted ones make room again."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.serving.kafka import PATIENCE_S, QUICK_RETURN, Broker, serving
from tests.support.serving.small_disk import SMALL_FILES, small_disk

pytestmark = pytest.mark.system

VALUE = bytes(50_000)
TOPIC = "filled"
RECORDS_MAX = 2_000
FAILURES = 3


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with small_disk(tmp_path / "disk") as disk, serving(disk / "data", *SMALL_FILES) as running:
        yield running


def produce(broker: Broker, count: int, timeout_ms: int = 2_000) -> tuple[int, int]:
    """Produce one after the other, until three have failed; answers how many were acknowledged, and how many failed."""
    producer = Producer(
        {"bootstrap.servers": broker.address, "acks": "all", "message.timeout.ms": timeout_ms, **QUICK_RETURN}
    )
    acknowledged = failed = 0

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged, failed
        acknowledged += error is None
        failed += error is not None

    for _ in range(count):
        producer.produce(TOPIC, VALUE, on_delivery=delivered)
        while len(producer) > 8:
            producer.poll(0.05)
        if failed >= FAILURES:
            break
    producer.flush(PATIENCE_S)
    return acknowledged, failed


def watermarks(broker: Broker) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "none", **QUICK_RETURN})
    try:
        return consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=PATIENCE_S)
    finally:
        consumer.close()


def test_records_stay_until_they_are_deleted(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address, **QUICK_RETURN})
    # The retention by age that every topic has by default: with it, records could go early.
    admin.create_topics([NewTopic(TOPIC, 1, 1, config={"retention.ms": "604800000"})])[TOPIC].result(PATIENCE_S)
    acknowledged, failed = produce(broker, RECORDS_MAX)
    assert failed, "the disk never was full"
    assert acknowledged > 400
    low, high = watermarks(broker)
    assert low == 0, f"{low} records were deleted that nobody has read"
    assert high >= acknowledged
    broker.kill()
    broker.start()
    assert watermarks(broker) == (low, high)
    admin.delete_records([TopicPartition(TOPIC, 0, high)])
    deadline = time.monotonic() + PATIENCE_S
    while produce(broker, 1)[0] == 0:
        assert time.monotonic() < deadline, "every record is refused, although all were deleted"
    assert produce(broker, 400, timeout_ms=10_000) == (400, 0), "the space of what was deleted has not come back"
