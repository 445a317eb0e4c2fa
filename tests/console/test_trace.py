"""A message on its way through protocols, told by the broker: in over Kafka, out over AMQP, rejected, read by a group."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.serving.lasting_broker import closing
from tests.support.serving.queue_broker import QueueBroker

pytestmark = [pytest.mark.system, pytest.mark.slow]

PATIENCE_S = 20
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def stations(broker: QueueBroker, message: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = broker.get(f"/v1/trace/{message}")["stations"]
    return found


def until_told(broker: QueueBroker, message: str, *texts: str) -> list[dict[str, Any]]:
    """Once all of these are told: what connections did is written within a second."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = stations(broker, message)
        told = [f"{one['what']} {one['who']} {one['detail']}" for one in found]
        if all(any(text in line for line in told) for text in texts):
            return found
        assert time.monotonic() < deadline, told
        time.sleep(0.05)


def test_one_message_through_protocols(tmp_path: Path) -> None:
    with closing(QueueBroker(tmp_path / "data")) as broker:
        broker.post("/v1/queues", {"name": "dead"})
        broker.post("/v1/queues", {"name": "work", "dead_letter_queue": "dead"})
        producer = Producer({"bootstrap.servers": broker.kafka, "client.id": "shop"})
        producer.produce("work", b'{"job": 153}', headers={"traceparent": TRACEPARENT.encode()})
        assert producer.flush(PATIENCE_S) == 0
        with broker.channel() as channel:
            delivery, _, _ = next(channel.consume("work", inactivity_timeout=PATIENCE_S))
            assert delivery is not None
            channel.basic_reject(delivery.delivery_tag, requeue=False)
            channel.cancel()
        given = {"bootstrap.servers": broker.kafka, "group.id": "audit", "client.id": "audit-1"}
        consumer = Consumer({**given, "auto.offset.reset": "earliest"})
        consumer.subscribe(["work"])
        record = consumer.poll(PATIENCE_S)
        assert record is not None
        consumer.commit(record, asynchronous=False)
        consumer.close()
        told = (
            "published kafka by shop (kafka, confluent-kafka-python",
            "given work to ",
            "Pika Python Client Library",
            "dead work rejected in work",
            "read audit audit-1 (kafka",
            "settled work",
            "waits dead",
        )
        for message in ("work:0:0", TRACEPARENT):
            until_told(broker, message, *told)
        broker.restart()
        found = until_told(broker, "work:0:0", *told)
        times = [one["time_ms"] for one in found if one["time_ms"] is not None]
        assert times == sorted(times)
        lines = trace(broker, "work:0:0").stdout.splitlines()
        assert json.loads(lines[0])["what"] == "published"
        assert trace(broker, "nothing-of-this-name").returncode == 3


def trace(broker: QueueBroker, message: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mainstem.cli", "trace", message, "--address", broker.http, "-o", "jsonl"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_nothing_is_noted_where_it_is_switched_off(tmp_path: Path) -> None:
    with closing(QueueBroker(tmp_path / "data", "--set", "trace.retention_ms=0")) as broker:
        broker.post("/v1/topics", {"name": "t"})
        broker.post("/v1/topics/t/records", {"records": [{"value": 1}]})
        time.sleep(1.5)  # longer than what was noted would wait
        assert [(one["what"], one["detail"]) for one in stations(broker, "t:0:0")] == [("published", "")]
