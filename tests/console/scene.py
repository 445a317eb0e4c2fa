"""A broker with something of everything on it, as a console finds it in use: the same content at every run."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.serving.ports import lasting_address
from tests.support.serving.served import Served

PATIENCE_S = 30
TRACED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ORDERS, CLICKS, WORK, DEAD = "orders.eu", "clickstream", "work", "work.dead"
HOSTILE = "\u202egnp.exe \u05e9\u05dc\u05d5\u05dd"
MARKUP = "<img src=x onerror=alert(1)>"
COUNTRIES = ("DE", "FR", "JP", "US", "BR")


class Scene(Served):
    """`mainstem serve` with Kafka, AMQP and HTTP."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.amqp = lasting_address()
        super().__init__(data_dir, *options, listeners={"amqp": self.amqp})

    @property
    def url(self) -> str:
        """Where the console is."""
        return f"http://{self.http}/"

    def api(self, method: str, path: str, content: Any = None) -> Any:
        """Ask, or change; whatever is refused is an error of the test."""
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}v1/{path}", body, method=method)
        if body is not None:
            request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
                text = reply.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()}") from None
        return json.loads(text) if text else None

    def publish(self, topic: str, *records: dict[str, Any]) -> None:
        self.api("POST", f"topics/{quote(topic, safe='')}/records", {"records": list(records)})

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """Of a client of RabbitMQ's."""
        host, _, port = self.amqp.rpartition(":")
        given = pika.ConnectionParameters(host, int(port), client_properties={"connection_name": "mailer"})
        connection = pika.BlockingConnection(given)
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()

    def producer(self, name: str = "shop") -> Producer:
        return Producer({"bootstrap.servers": self.kafka, "client.id": name, "linger.ms": 5})

    def fill(self, orders: int = 400) -> None:
        """Topics, groups, queues, dead letters and schedules."""
        for name, partitions in (
            (ORDERS, 3),
            (CLICKS, 6),
            ("payments.settled", 1),
            ("inventory.levels", 2),
            ("audit", 1),
        ):
            config = {"cleanup.policy": "compact"} if name == "inventory.levels" else {}
            self.api("POST", "topics", {"name": name, "partitions": partitions, "config": config})
        producer = self.producer()
        for number in range(orders):
            headers = [("source", b"shop")] + ([("traceparent", TRACED.encode())] if number == 7 else [])
            producer.produce(ORDERS, json.dumps(order(number)).encode(), f"c{number % 97}", headers=headers)
            producer.produce(
                CLICKS, json.dumps({"page": f"/item/{number % 40}", "ms": number % 700}).encode(), f"s{number % 31}"
            )
        for number in range(60):
            producer.produce(
                "inventory.levels", json.dumps({"sku": f"A{number}", "left": number * 3}).encode(), f"A{number % 20}"
            )
            producer.produce(
                "payments.settled", json.dumps({"order": number, "amount": number * 1.5}).encode(), f"c{number}"
            )
        assert producer.flush(PATIENCE_S) == 0
        self.read("billing", ORDERS, orders // 4)
        self.read("dashboards", CLICKS, orders)
        self._queues()
        in_an_hour = int(time.time() * 1000) + 3_600_000
        for number in range(12):
            self.api("POST", "schedules", {
                "target": {"topic": ORDERS}, "key": f"c{number}", "value": json.dumps({"reminder": number}),
                "headers": {"customer": str(40 + number)}, "due_ms": in_an_hour + number * 420_000,
            })  # fmt: skip
        self.api("PUT", "recurrences/morning-report", {
            "cron": "0 7 * * MON-FRI", "zone": "Europe/Berlin", "target": {"topic": "audit"}, "value": "report",
        })  # fmt: skip

    def read(self, group: str, topic: str, count: int) -> None:
        """A group that has come so far, and has gone."""
        consumer = Consumer({
            "bootstrap.servers": self.kafka, "group.id": group, "client.id": f"{group}-1", "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        })  # fmt: skip
        found = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
        each = count // len(found)
        consumer.commit(offsets=[TopicPartition(topic, partition, each) for partition in found], asynchronous=False)
        consumer.close()

    def _queues(self) -> None:
        self.api("POST", "queues", {"name": DEAD})
        self.api("POST", "queues", {"name": WORK, "dead_letter_queue": DEAD})
        self.api("POST", "queues", {"name": "mail", "dead_letter_queue": DEAD, "message_ttl_ms": 3_600_000})
        self.api("POST", "exchanges", {"name": "events", "kind": "topic"})
        self.api("POST", "bindings", {"exchange": "events", "queue": WORK, "routing_key": "order.*"})
        self.api("POST", "bindings", {"exchange": "events", "queue": "mail", "routing_key": "mail.#"})
        with self.channel() as channel:
            channel.confirm_delivery()
            for number in range(50):
                channel.basic_publish(
                    "events",
                    "order.created",
                    json.dumps({"job": number}).encode(),
                    pika.BasicProperties(delivery_mode=2, headers={"traceparent": TRACED} if number == 3 else None),
                )
        taken = self.api("POST", f"queues/{WORK}/receive", {"max": 45})["messages"]
        dying, done = taken[:37], taken[37:]
        self.api("POST", f"queues/{WORK}/settle", {
            "reject": [{"receipt": one["receipt"], "reason": "KeyError: 'country'"} for one in dying],
            "accept": [one["receipt"] for one in done],
        })  # fmt: skip


def order(number: int) -> dict[str, Any]:
    """As a shop writes it."""
    return {
        "id": 40_000 + number, "country": COUNTRIES[number % 5], "amount": round(number * 7.31 % 180, 2),
        "items": [{"sku": f"A{number % 60}", "n": number % 5}], "note": "x" * (number % 40),
    }  # fmt: skip


class Load:
    """A little traffic until it is ended."""

    def __init__(self, scene: Scene, rate: int = 20) -> None:
        self._scene, self._rate = scene, rate
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        producer = self._scene.producer()
        consumer = Consumer(
            {
                "bootstrap.servers": self._scene.kafka,
                "group.id": "live",
                "client.id": "live-1",
                "auto.offset.reset": "latest",
            }
        )
        consumer.subscribe([ORDERS])
        number = 0
        while not self._ended.wait(0.1):
            for _ in range(self._rate // 10):
                number += 1
                producer.produce(ORDERS, json.dumps(order(number)).encode(), f"c{number % 97}")
                if number % 3 == 0:
                    producer.produce(CLICKS, b'{"page":"/","ms":12}', f"s{number % 31}")
            producer.poll(0)
            consumer.poll(0)
        producer.flush(PATIENCE_S)
        consumer.close()
