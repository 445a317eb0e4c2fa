"""A queue as the source of a pipeline: settled with what comes of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines.runs import Pipelines
from tests.support.clients.json_topics import rows
from tests.support.serving.queue_broker import QueueBroker

pytestmark = [pytest.mark.system, pytest.mark.slow]
TEXT = """
    name: invoices
    mode: available-now
    sources:
      orders: {queue: to-invoice, format: json, schema: "id BIGINT, amount BIGINT"}
    steps:
      invoices:
        sql: |
          SELECT value.id, value.amount * 2 AS gross, _receipt,
                 IF(value.amount IS NULL, 'reject', NULL) AS _verdict, 'no amount' AS _reason
          FROM orders
    sinks:
      out: {topic: queue-invoices, key: id}
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[QueueBroker]:
    broker = QueueBroker(tmp_path / "data")
    yield broker
    broker.kill()


def test_messages_are_settled_with_the_output(broker: QueueBroker, spark: SparkSession, tmp_path: Path) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "to-invoice.dead"}
    broker.declare("to-invoice.dead")
    broker.declare("to-invoice", **dead)
    orders = [{"id": n, "amount": None if n == 3 else n} for n in range(5)]
    broker.publish("to-invoice", [json.dumps(order).encode() for order in orders])
    Pipelines(broker, tmp_path).run(TEXT)
    assert sorted((row["id"], row["gross"]) for row in rows(broker, "queue-invoices")) == [
        (0, 0),
        (1, 2),
        (2, 4),
        (4, 8),
    ]
    assert broker.counts("to-invoice") == (0, 0)
    assert broker.counts("to-invoice.dead") == (1, 0)
