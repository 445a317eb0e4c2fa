"""In by Pulsar and out by Kafka and AMQP, and back: values byte for byte; keys and properties as crossing.md has them."""

import pika
import pulsar
import pytest
from confluent_kafka import Consumer, Producer
from pulsar import CompressionType, MessageId

from tests.support.serving.pulsar import PulsarServer

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

PATIENCE_S, PATIENCE_MS = 30, 30_000
MESSAGES = 200
BODIES = [bytes([number % 256]) * (number + 1) for number in range(MESSAGES)]


def read_by_kafka(broker: PulsarServer, topic: str) -> list[tuple[bytes | None, bytes, dict[str, bytes]]]:
    options = {"bootstrap.servers": broker.kafka, "group.id": f"{topic}-kafka", "auto.offset.reset": "earliest"}
    consumer = Consumer(options)
    consumer.subscribe([topic])
    found = []
    try:
        while len(found) < MESSAGES:
            record = consumer.poll(PATIENCE_S)
            assert record is not None, f"{len(found)} came"
            assert record.error() is None
            found.append((record.key(), record.value(), dict(record.headers())))
    finally:
        consumer.close()
    return found


def publish_by_kafka(broker: PulsarServer, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 20})
    for number, body in enumerate(BODIES):
        headers = [("own", f"{number}".encode()), ("bytes", b"\xff")]
        producer.produce(topic, body, b"\xfe\xff" if number == 7 else f"k{number}", headers=headers)
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.ZSTD])
def test_from_pulsar_to_kafka(broker: PulsarServer, client: pulsar.Client, name: str, codec: CompressionType) -> None:
    producer = client.create_producer(
        name, batching_enabled=True, batching_max_publish_delay_ms=20, compression_type=codec
    )
    for number, body in enumerate(BODIES):
        producer.send_async(body, None, properties={"own": f"{number}"}, partition_key=f"k{number}")
    producer.flush()
    found = read_by_kafka(broker, name)
    assert [value for _, value, _ in found] == BODIES
    assert [(key, headers["own"]) for key, _, headers in found] == [
        (b"k%d" % number, b"%d" % number) for number in range(MESSAGES)
    ]
    assert all(headers["mainstem-pulsar"].isascii() for _, _, headers in found)


def test_from_kafka_to_pulsar(broker: PulsarServer, client: pulsar.Client, name: str) -> None:
    reader = client.create_reader(name, MessageId.earliest)
    publish_by_kafka(broker, name)
    found = [reader.read_next(PATIENCE_MS) for _ in BODIES]
    assert [one.data() for one in found] == BODIES
    assert [one.properties()["own"] for one in found] == [f"{number}" for number in range(MESSAGES)]
    assert found[0].properties()["bytes"] == "mainstem-base64:/w=="
    assert (found[3].partition_key(), found[7].partition_key()) == ("k3", "/v8=")
    assert len({str(one.message_id()) for one in found}) == MESSAGES


def test_from_kafka_through_pulsar_and_back(broker: PulsarServer, client: pulsar.Client, name: str) -> None:
    """What Pulsar's client cannot show as it is comes back as it was."""
    reader = client.create_reader(name, MessageId.earliest)
    producer = client.create_producer(f"{name}-back")
    publish_by_kafka(broker, name)
    for _ in BODIES:
        one = reader.read_next(PATIENCE_MS)
        producer.send(one.data(), properties=one.properties())
    assert [(value, headers["bytes"]) for _, value, headers in read_by_kafka(broker, f"{name}-back")] == [
        (body, b"\xff") for body in BODIES
    ]


def test_from_pulsar_to_amqp_and_back(broker: PulsarServer, client: pulsar.Client, name: str) -> None:
    host, _, port = broker.amqp.rpartition(":")
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        reader = client.create_reader(name, MessageId.earliest)
        producer = client.create_producer(name)
        for number, body in enumerate(BODIES):
            producer.send(body, properties={"own": f"{number}"}, partition_key=f"k{number}")
        found = []
        for method, properties, body in channel.consume(name, auto_ack=True, inactivity_timeout=PATIENCE_S):
            assert method is not None
            found.append((body, properties.headers["own"], properties.headers["mainstem-key"]))
            if len(found) == MESSAGES:
                break
        channel.cancel()
        assert found == [(body, f"{number}", f"k{number}") for number, body in enumerate(BODIES)]
        for _ in BODIES:
            reader.read_next(PATIENCE_MS)
        channel.confirm_delivery()
        channel.basic_publish("", name, b"\x00\xff", pika.BasicProperties(headers={"own": "amqp"}))
        one = reader.read_next(PATIENCE_MS)
        assert (one.data(), one.properties()["own"]) == (b"\x00\xff", "amqp")
