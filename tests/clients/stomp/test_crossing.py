"""In by STOMP and out by AMQP and Kafka, and back: values byte for byte, in order; properties as crossing.md has them."""

import pika
import pytest
from confluent_kafka import Consumer, Producer

from tests.clients.stomp.serving import PATIENCE_S, Broker, connected

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

MESSAGES = 10_000
BODIES = [bytes([number % 256]) * (number % 50) + b"%d" % number for number in range(MESSAGES)]


def send_all(broker: Broker, name: str) -> None:
    with connected(broker, auto_content_length=True) as (client, heard):
        for number, body in enumerate(BODIES):
            headers = {"own": str(number), "content-type": "x/y", "correlation-id": "c"}
            client.send(f"/queue/{name}", body, headers=headers)
        client.disconnect(receipt="all")
        assert heard.receipts.get(timeout=PATIENCE_S) == "all"


def amqp(broker: Broker) -> pika.BlockingConnection:
    host, port = broker.place(broker.amqp)
    return pika.BlockingConnection(pika.ConnectionParameters(host, port))


def test_from_stomp_to_amqp_and_kafka(broker: Broker, name: str) -> None:
    send_all(broker, name)
    with amqp(broker) as connection:
        channel = connection.channel()
        found = []
        for method, properties, body in channel.consume(name, auto_ack=True, inactivity_timeout=PATIENCE_S):
            assert method is not None, f"{len(found)} came"
            assert (properties.content_type, properties.correlation_id) == ("x/y", "c")
            assert properties.headers == {"own": str(len(found))}
            found.append(body)
            if len(found) == MESSAGES:
                break
    assert found == BODIES
    options = {"bootstrap.servers": broker.kafka, "group.id": name, "auto.offset.reset": "earliest"}
    consumer = Consumer(options)
    consumer.subscribe([name])
    records: list[bytes] = []
    while len(records) < MESSAGES:
        for record in consumer.consume(1_000, PATIENCE_S):
            assert record.error() is None
            headers = dict(record.headers())
            assert (headers["own"], headers["amqp.content-type"]) == (b"%d" % len(records), b"x/y")
            records.append(record.value())
    consumer.close()
    assert records == BODIES


def taken(broker: Broker, name: str, publish: object) -> list[tuple[bytes, dict[str, str]]]:
    """All that a subscription is given of what is published meanwhile."""
    found: list[tuple[bytes, dict[str, str]]] = []
    with connected(broker, auto_decode=False) as (client, heard):
        client.subscribe(f"/queue/{name}", id="1", ack="client", headers={"prefetch-count": "500"}, receipt="s")
        assert heard.receipts.get(timeout=PATIENCE_S) == "s"
        assert callable(publish)
        publish()
        while len(found) < MESSAGES:
            frame = heard.messages.get(timeout=PATIENCE_S)
            body = frame.body if isinstance(frame.body, bytes) else frame.body.encode()
            found.append((body, frame.headers))
            if len(found) % 100 == 0:
                client.ack(frame.headers["ack"])
    return found


def test_from_amqp_to_stomp(broker: Broker, name: str) -> None:
    def publish() -> None:
        with amqp(broker) as connection:
            channel = connection.channel()
            for number, body in enumerate(BODIES):
                properties = pika.BasicProperties(
                    headers={"own": number, "flag": True}, message_id=f"m{number}", reply_to="back"
                )
                channel.basic_publish("", name, body, properties)

    found = taken(broker, name, publish)
    assert [body for body, _ in found] == BODIES
    for number, (_, headers) in enumerate(found):
        assert (headers["own"], headers["flag"], headers["amqp-message-id"]) == (str(number), "true", f"m{number}")
        assert headers["reply-to"] == "/reply-queue/back"


def test_from_kafka_to_stomp(broker: Broker, name: str) -> None:
    def publish() -> None:
        producer = Producer({"bootstrap.servers": broker.kafka, "queue.buffering.max.messages": MESSAGES})
        for number, body in enumerate(BODIES):
            producer.produce(name, body, f"k{number}", headers=[("own", str(number)), ("raw", b"\xff")])
        assert producer.flush(PATIENCE_S) == 0

    found = taken(broker, name, publish)
    assert [body for body, _ in found] == BODIES
    for number, (_, headers) in enumerate(found):
        assert (headers["own"], headers["mainstem-key"]) == (str(number), f"k{number}")
        assert "raw" not in headers
