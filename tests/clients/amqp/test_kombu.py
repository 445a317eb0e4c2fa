"""kombu over py-amqp."""

import socket
from typing import Any

import kombu
import pytest

from tests.clients.amqp.serving import PATIENCE_S, Broker

pytestmark = pytest.mark.conformance


def test_produce_consume_and_requeue(broker: Broker, name: str) -> None:
    with kombu.Connection(broker.url) as connection:
        exchange = kombu.Exchange(name, "direct", durable=True)
        queue = kombu.Queue(name, exchange, routing_key="k")
        producer = connection.Producer(serializer="json")
        producer.publish({"n": 1}, exchange=exchange, routing_key="k", declare=[queue], retry=True)
        found: list[Any] = []

        def take(body: Any, message: kombu.Message) -> None:
            found.append((body, message.delivery_info["redelivered"]))
            if len(found) == 1:
                message.requeue()
            else:
                message.ack()

        with connection.Consumer(queue, callbacks=[take]):
            while len(found) < 2:
                connection.drain_events(timeout=PATIENCE_S)
        assert found == [({"n": 1}, False), ({"n": 1}, True)]


def test_heartbeats_keep_a_connection(broker: Broker, name: str) -> None:
    with kombu.Connection(broker.url, heartbeat=2) as connection:
        connection.ensure_connection()
        for _ in range(12):
            connection.heartbeat_check(rate=2)
            # Shorter than half the interval: py-amqp goes on waiting for as long again when a heartbeat comes.
            with pytest.raises(socket.timeout):
                connection.drain_events(timeout=0.5)
        assert connection.connected
        simple = connection.SimpleQueue(name)
        simple.put("still here")
        message = simple.get(timeout=PATIENCE_S)
        message.ack()
        assert message.payload == "still here"
        simple.close()


def test_a_silent_client_is_let_go(broker: Broker) -> None:
    with kombu.Connection(broker.url, heartbeat=1) as connection:
        connection.ensure_connection()
        raw = connection.connection.transport.sock
        raw.settimeout(PATIENCE_S)
        ended = False
        while not ended:
            # Heartbeats of the broker come, then its end.
            ended = raw.recv(4096) == b""
