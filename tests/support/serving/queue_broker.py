"""A broker that speaks AMQP, Kafka and HTTP, and what tests of queue mode ask of it."""

import base64
import json
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.serving.ports import lasting_address
from tests.support.serving.served import Served

PATIENCE_S = 30


class QueueBroker(Served):
    """`mainstem serve`."""

    def __init__(self, data_dir: Path, *options: str, module: str = "mainstem.cli") -> None:
        self.amqp, self.management = lasting_address(), lasting_address()
        listeners = {"amqp": self.amqp, "management": self.management}
        super().__init__(data_dir, *options, module=module, listeners=listeners)

    @property
    def address(self) -> str:
        """Of its Kafka listener."""
        return self.kafka

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=PATIENCE_S) as reply:
            return json.load(reply)

    def post(self, path: str, content: object = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"http://{self.http}{path}", body, {"content-type": "application/json"})
        request.method = "POST"
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return json.load(reply)

    @contextmanager
    def channel(self, vhost: str = "/") -> Iterator[BlockingChannel]:
        host, _, port = self.amqp.rpartition(":")
        with pika.BlockingConnection(pika.ConnectionParameters(host, int(port), vhost)) as connection:
            yield connection.channel()

    def create_host(self, name: str) -> None:
        request = urllib.request.Request(f"http://{self.management}/api/vhosts/{name}", b"{}", method="PUT")
        request.add_header("content-type", "application/json")
        request.add_header("authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()

    def declare(self, name: str, **arguments: Any) -> None:
        with self.channel() as channel:
            channel.queue_declare(name, durable=True, arguments=arguments)

    def publish(self, queue: str, bodies: Iterable[bytes]) -> None:
        with self.channel() as channel:
            channel.confirm_delivery()
            for body in bodies:
                channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))

    def counts(self, queue: str) -> tuple[int, int]:
        """Messages that wait, and messages that somebody has."""
        shown = self.get(f"/v1/queues/{queue}")
        return shown["ready"], shown["unsettled"]

    def drain(self, queue: str) -> list[tuple[bytes, Any]]:
        """All that waits, acknowledged: the body, and its headers."""
        found = []
        with self.channel() as channel:
            while True:
                method, properties, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    return found
                found.append((body, properties.headers))

    def conditions(self, subscription: str) -> list[str]:
        found: Sequence[Any] = self.get(f"/v1/acquisitions?subscription={subscription}")["acquisitions"]
        return [one["condition"] for one in found]
