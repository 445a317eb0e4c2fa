"""In by RocketMQ and out by Kafka and AMQP, and back: values byte for byte; keys, tags and headers as crossing.md has them."""

import contextlib
from collections.abc import Iterator

import pika
import pytest
from confluent_kafka import Consumer, Producer

from tests.clients.rocketmq.python_client import consuming, message, producing, receive
from tests.support.serving.rocketmq import RocketmqBroker

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

PATIENCE_S = 30
MESSAGES = 200


@contextlib.contextmanager
def kafka_consumer(broker: RocketmqBroker, topic: str) -> Iterator[Consumer]:
    options = {"bootstrap.servers": broker.kafka, "group.id": f"{topic}-kafka", "auto.offset.reset": "earliest"}
    consumer = Consumer(options)
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def test_from_rocketmq_to_kafka(broker: RocketmqBroker, name: str) -> None:
    bodies = [bytes([number % 256]) * (number + 1) for number in range(MESSAGES)]
    with producing(broker, name) as producer, kafka_consumer(broker, name) as consumer:
        for number, body in enumerate(bodies):
            producer.send(message(name, body, f"tag{number % 2}", f"k{number}", own=f"value {number}"))
        found = {}
        while len(found) < MESSAGES:
            record = consumer.poll(PATIENCE_S)
            assert record is not None, f"{len(found)} came"
            assert record.error() is None
            headers = dict(record.headers())
            number = int(headers["own"].split()[1])
            assert (headers["TAGS"], headers["KEYS"]) == (b"tag%d" % (number % 2), b"k%d" % number)
            assert record.key() == b"k%d" % number
            found[number] = record.value()
    assert [found[number] for number in range(MESSAGES)] == bodies


def test_from_kafka_to_rocketmq(broker: RocketmqBroker, name: str) -> None:
    with producing(broker, name):
        pass  # The topic is there.
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(MESSAGES):
        headers = [("TAGS", f"tag{number % 2}"), ("own", f"{number}"), ("bytes", b"\xff")]
        producer.produce(name, b"%d" % number, f"key{number}", headers=headers)
    producer.flush(PATIENCE_S)
    with consuming(broker, name, name, "tag1") as consumer:
        found = receive(consumer, MESSAGES // 2)
        for one in found:
            consumer.ack(one)
            number = int(one.body)
            assert (one.tag, one.keys, one.properties) == ("tag1", {f"key{number}"}, {"own": str(number)})
            assert one.message_id
        assert sorted(int(one.body) for one in found) == list(range(1, MESSAGES, 2))


def test_between_rocketmq_and_amqp(broker: RocketmqBroker, name: str) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", int(broker.amqp.rpartition(":")[2]))
    with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        properties = pika.BasicProperties(headers={"TAGS": "a", "own": "1"})
        channel.basic_publish("", name, b"from amqp", properties)
        with producing(broker, name) as producer, consuming(broker, name, name, "a") as consumer:
            (found,) = receive(consumer, 1)
            assert (found.body, found.tag, found.properties["own"]) == (b"from amqp", "a", "1")
            consumer.ack(found)
            producer.send(message(name, b"from rocketmq", "b", "k", own="2"))
        taken = {}
        for method, given, body in channel.consume(name, inactivity_timeout=PATIENCE_S):
            assert method is not None, f"{len(taken)} of 2 came"
            taken[body] = given.headers
            channel.basic_ack(method.delivery_tag)
            if len(taken) == 2:
                break
        assert taken[b"from rocketmq"]["TAGS"] == "b"
        assert taken[b"from rocketmq"]["own"] == "2"
        assert taken[b"from rocketmq"]["mainstem-key"] == "k"
