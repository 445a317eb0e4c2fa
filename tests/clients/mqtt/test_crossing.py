"""In by MQTT, out by Kafka and AMQP, and back: values byte for byte, in order for each key, headers as crossing.md has them."""

import contextlib
import os

import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.mqtt.devices import PATIENCE_S, Devices, properties
from tests.support.serving.mqtt import MqttBroker

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

MESSAGES = int(os.environ.get("CROSSING_MESSAGES", "500"))
PARTITIONS = 8


def value_of(number: int) -> bytes:
    return bytes([number % 256]) * (number % 50 + 1) + b"%d" % number


def test_from_mqtt_to_kafka(broker: MqttBroker, devices: Devices, name: str) -> None:
    sender = devices.device("sender", v5=True)
    for number in range(MESSAGES):
        said = properties(ContentType="a/b", UserProperty=[("number", str(number))])
        sender.client.publish(f"{name}/{number % 5}", value_of(number), 1 + number % 2, properties=said)
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": name, "auto.offset.reset": "earliest"})
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition("mqtt", partition, 0) for partition in range(PARTITIONS)])
        found: dict[bytes, list[int]] = {}
        while sum(map(len, found.values())) < MESSAGES:
            record = consumer.poll(PATIENCE_S)
            assert record is not None
            headers = dict(record.headers() or ())
            if record.key().startswith(name.encode()):
                number = int(headers["number"])
                assert record.value() == value_of(number)
                assert (headers["mqtt.topic"], headers["mqtt.qos"]) == (record.key(), b"%d" % (1 + number % 2))
                assert (headers["mqtt.content-type"], headers["mqtt.client"]) == (b"a/b", b"sender")
                found.setdefault(record.key(), []).append(number)
    for numbers in found.values():
        assert numbers == sorted(numbers)


def test_from_kafka_to_mqtt(broker: MqttBroker, devices: Devices, name: str) -> None:
    """By its key, to a session that is kept, and by a header, to one that is not; the headers are user properties."""
    kept = devices.device(name, clean_session=False)
    kept.subscribe(f"{name}/#", 1)
    listener = devices.device(v5=True)
    listener.subscribe(f"{name}/#", 0)
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(MESSAGES):
        if number % 2:
            producer.produce(
                "mqtt", value_of(number), f"{name}/{number % 5}", headers=[("own", f"{number}"), ("bytes", b"\xff")]
            )
        else:
            producer.produce(
                "mqtt", value_of(number), b"any", headers=[("mqtt.topic", f"{name}/even"), ("own", f"{number}")]
            )
        producer.poll(0)
    producer.flush(PATIENCE_S)
    for device in (kept, listener):
        heard = device.hear(MESSAGES)
        by_topic: dict[str, list[bytes]] = {}
        for message in heard:
            by_topic.setdefault(message.topic, []).append(message.payload)
        assert by_topic[f"{name}/even"] == [value_of(number) for number in range(0, MESSAGES, 2)]
        for digit in range(5):
            expected = [value_of(number) for number in range(1, MESSAGES, 2) if number % 5 == digit]
            assert by_topic[f"{name}/{digit}"] == expected
        assert device.heard.empty(), "nothing comes twice"
        if device is listener:
            for message in heard:
                assert [name for name, _ in message.properties.UserProperty] == ["own"]


def test_between_mqtt_and_amqp(broker: MqttBroker, devices: Devices, name: str) -> None:
    listener = devices.device()
    listener.subscribe(f"{name}/#", 1)
    sender = devices.device()
    parameters = pika.ConnectionParameters("127.0.0.1", int(broker.amqp.rpartition(":")[2]))
    with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "amq.topic", f"{name}.*.reading")
        for number in range(MESSAGES):
            sender.client.publish(f"{name}/{number % 3}/reading", value_of(number), 1)
        bodies: list[bytes] = []
        for method, sent, body in channel.consume(name, auto_ack=True, inactivity_timeout=PATIENCE_S):
            assert method is not None
            assert sent is not None
            assert sent.headers["mqtt.topic"] == f"{name}/{len(bodies) % 3}/reading"
            bodies.append(body)
            if len(bodies) == MESSAGES:
                break
        channel.cancel()
        assert bodies == [value_of(number) for number in range(MESSAGES)]
        assert [message.payload for message in listener.hear(MESSAGES)] == bodies
        channel.queue_declare("mqtt", durable=True)  # a queue on the topic
        try:
            channel.confirm_delivery()
            for number in range(MESSAGES):
                facts = pika.BasicProperties(headers={"mqtt.topic": f"{name}/back", "mqtt.qos": "1"})
                channel.basic_publish("", "mqtt", value_of(number), facts)
            assert sorted(message.payload for message in listener.hear(MESSAGES)) == sorted(bodies)
        finally:
            channel.queue_delete("mqtt")
