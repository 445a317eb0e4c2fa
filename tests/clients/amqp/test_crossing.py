"""What AMQP clients publish, Kafka clients read, and the other way round: docs/protocols/crossing.md, row by row."""

import json
import time
from base64 import b64decode
from typing import Any

import confluent_kafka
import pika
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pika.adapters.blocking_connection import BlockingChannel

from mainstem.broker.queues import topic_name_of
from tests.clients.amqp.serving import PATIENCE_S, Broker, depth, take, until

pytestmark = pytest.mark.conformance


@pytest.fixture
def producer(broker: Broker) -> confluent_kafka.Producer:
    return confluent_kafka.Producer({"bootstrap.servers": broker.kafka_address})


def produced(producer: confluent_kafka.Producer, topic: str, value: bytes | None, **options: Any) -> None:
    producer.produce(topic, value, **options)
    assert producer.flush(PATIENCE_S) == 0


def records(broker: Broker, topic: str, count: int, partition: int = 0) -> list[confluent_kafka.Message]:
    """From the beginning of a partition."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.kafka_address, "group.id": "crossing"})
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
    try:
        found = consumer.consume(count, PATIENCE_S)
    finally:
        consumer.close()
    assert len(found) == count
    assert all(record.error() is None for record in found)
    return found


def topics(broker: Broker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.kafka_address}).list_topics(timeout=PATIENCE_S).topics)


def test_what_is_published_is_a_record(broker: Broker, channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, "amq.topic", "a.*")
    channel.confirm_delivery()
    before_ms = time.time_ns() // 1_000_000
    properties = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={"text": "ü", "number": -5, "yes": True, "none": None, "list": [1, "a"], "mainstem-key": "the key"},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    channel.basic_publish("amq.topic", "a.b", b"\0body", properties)
    channel.basic_publish("", name, b"")
    first, second = records(broker, name, 2)
    assert (first.key(), first.value()) == (b"the key", b"\0body")
    kind, stamp_ms = first.timestamp()
    assert kind == confluent_kafka.TIMESTAMP_CREATE_TIME
    assert before_ms <= stamp_ms <= time.time_ns() // 1_000_000
    headers = dict(first.headers())
    assert b"amq.topic" in b64decode(headers.pop("amqp.raw"), validate=True)
    assert headers == {
        "text": "ü".encode(),
        "number": b"-5",
        "yes": b"true",
        "none": None,
        "list": b'[1,"a"]',
        "mainstem-ttl": b"60000",
        "amqp.exchange": b"amq.topic",
        "amqp.routing-key": b"a.b",
        "amqp.content-type": b"application/json",
        "amqp.content-encoding": b"utf-8",
        "amqp.priority": b"3",
        "amqp.correlation-id": b"c",
        "amqp.reply-to": b"r",
        "amqp.expiration": b"60000",
        "amqp.message-id": b"m",
        "amqp.timestamp": b"1700000000",
        "amqp.type": b"t",
        "amqp.user-id": b"guest",
        "amqp.app-id": b"a",
    }
    assert (second.key(), second.value() or b"") == (None, b"")
    assert [header for header, _ in second.headers()] == ["amqp.raw"]


def test_every_header_of_a_dead_letter_is_text(broker: Broker, channel: BlockingChannel, name: str) -> None:
    letters = f"{name}-letters"
    channel.queue_declare(letters, durable=True)
    target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
    channel.queue_declare(name, durable=True, arguments=target)
    channel.confirm_delivery()
    properties = pika.BasicProperties(delivery_mode=2, headers={"a": "ü"}, message_id="m" * 200, timestamp=2**40)
    channel.basic_publish("", name, b"body", properties)
    ((method, _, _),) = take(channel, name, 1)
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.cancel()
    (record,) = records(broker, letters, 1)
    texts = {header: content.decode() for header, content in record.headers()}
    assert json.loads(texts["mainstem-dead"])[0]["queue"] == name
    assert json.loads(texts["mainstem-origin"])["reason"] == "rejected"
    ((_, found, body),) = take(channel, letters, 1, auto_ack=True)
    assert (found.message_id, found.timestamp, body) == ("m" * 200, 2**40, b"body")
    assert found.headers["x-death"][0]["queue"] == name


def test_urgent_messages_of_a_quorum_queue_are_a_partition_of_their_own(
    broker: Broker, channel: BlockingChannel, name: str, producer: confluent_kafka.Producer
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.kafka_address})

    def partitions() -> int:
        return len(admin.list_topics(name, PATIENCE_S).topics[name].partitions)

    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    channel.basic_publish("", name, b"calm", pika.BasicProperties(delivery_mode=2))
    assert partitions() == 1
    channel.basic_publish("", name, b"urgent", pika.BasicProperties(delivery_mode=2, priority=5))
    until(channel, lambda: partitions() == 2)
    assert [record.value() for record in records(broker, name, 1)] == [b"calm"]
    assert [record.value() for record in records(broker, name, 1, partition=1)] == [b"urgent"]
    produced(producer, name, b"of Kafka", partition=1)
    until(channel, lambda: depth(channel, name) == 3)
    assert [body for _, _, body in take(channel, name, 3, auto_ack=True)] == [b"urgent", b"of Kafka", b"calm"]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_record_is_delivered(broker: Broker, channel: BlockingChannel, name: str, compression: str) -> None:
    channel.queue_declare(name, durable=True)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.kafka_address, "compression.type": compression})
    stamp_ms = 1_700_000_000_123
    produced(
        producer,
        name,
        b"value",
        key=b"the key",
        headers=[("text", "ü"), ("raw", b"\xff\x00"), ("none", None)],
        timestamp=stamp_ms,
    )
    produced(producer, name, None)
    (first, properties, body), (_, bare, empty) = take(channel, name, 2, auto_ack=True)
    assert (first.exchange, first.routing_key, first.redelivered, body) == ("", name, False, b"value")
    assert properties.headers == {
        "text": "ü",
        "raw": b"\xff\x00",
        "none": None,
        "mainstem-key": "the key",
        "timestamp_in_ms": stamp_ms,
    }
    assert (properties.timestamp, properties.delivery_mode) == (stamp_ms // 1000, 2)
    assert empty == b""
    assert "mainstem-key" not in bare.headers


def test_own_and_other_messages_keep_their_order(
    broker: Broker, channel: BlockingChannel, producer: confluent_kafka.Producer, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    for number in range(0, 20, 2):
        channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(delivery_mode=2))
        produced(producer, name, b"%d" % (number + 1))
    assert [body for _, _, body in take(channel, name, 20)] == [b"%d" % number for number in range(20)]


def test_transactions_of_kafka_are_delivered_when_they_are_committed(
    broker: Broker, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.kafka_address, "transactional.id": name})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    produced(producer, name, b"aborted")
    producer.abort_transaction(PATIENCE_S)
    producer.begin_transaction()
    produced(producer, name, b"committed")
    channel.confirm_delivery()
    channel.basic_publish("", name, b"behind it", pika.BasicProperties(delivery_mode=2))
    found: list[bytes] = []
    channel.basic_consume(name, lambda _, __, ___, body: found.append(body), auto_ack=True)
    for _ in range(5):
        channel.connection.process_data_events(0.05)
    assert found == [], "nothing behind an open transaction is stable"
    producer.commit_transaction(PATIENCE_S)
    until(channel, lambda: len(found) >= 2)
    assert found == [b"committed", b"behind it"]


def test_a_queue_on_a_topic_begins_at_its_end_and_leaves_it_there(
    broker: Broker, channel: BlockingChannel, producer: confluent_kafka.Producer, name: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.kafka_address})
    admin.create_topics([NewTopic(name, 3)])[name].result(PATIENCE_S)
    for partition in range(3):
        produced(producer, name, b"before", partition=partition)
    channel.queue_declare(name, durable=True)
    assert depth(channel, name) == 0
    for partition in range(3):
        produced(producer, name, b"%d" % partition, partition=partition)
    channel.basic_publish("", name, b"ours")
    found = {body for _, _, body in take(channel, name, 4, auto_ack=True)}
    assert found == {b"0", b"1", b"2", b"ours"}
    channel.cancel()
    channel.queue_delete(name)
    assert name in topics(broker)
    assert records(broker, name, 2)[0].value() == b"before"


def test_names_that_kafka_forbids_are_escaped_and_private_queues_hidden(
    broker: Broker, channel: BlockingChannel, producer: confluent_kafka.Producer, name: str
) -> None:
    odd = f"{name} with/ünusual:signs"
    channel.queue_declare(odd, durable=True)
    channel.queue_declare(f"{name}-mine", exclusive=True)
    unnamed = channel.queue_declare("").method.queue
    topic = topic_name_of(odd)
    seen = topics(broker)
    assert topic in seen
    assert not {f"{name}-mine", unnamed} & seen
    produced(producer, topic, b"through the back door")
    assert take(channel, odd, 1, auto_ack=True)[0][2] == b"through the back door"
