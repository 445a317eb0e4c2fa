"""Rows of JSON, sent to a topic and read from it."""

import json
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Producer

from mainstem.sdk.client import Client
from mainstem.wire.record_batch import Record
from tests.support.clients.committed import committed_records
from tests.support.serving.kafka import PATIENCE_S, QUICK_RETURN
from tests.support.serving.served import Served


def send_json(served: Served, topic: str, rows: Iterable[Any], key: str | None = None) -> None:
    producer = Producer({"bootstrap.servers": served.kafka, **QUICK_RETURN})
    for row in rows:
        value = row if isinstance(row, bytes) else json.dumps(row).encode()
        name = str(row[key]).encode() if key else None
        producer.produce(topic, value, name, on_delivery=_check)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def _check(error: object, message: object) -> None:
    assert error is None, error


def records(served: Served, topic: str) -> list[Record]:
    with Client(served.kafka) as client:
        return [record for _, record in committed_records(client, topic)]


def rows(served: Served, topic: str) -> list[Any]:
    return [json.loads(record.value or b"null") for record in records(served, topic)]
