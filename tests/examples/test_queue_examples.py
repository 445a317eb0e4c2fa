"""Orders by pika, enriched in queue mode; what was rejected is repaired by SQL, sent back, and enriched after all."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.dead_letter_repair import repair
from examples.enrich_queue import enrich, publish
from mainstem.pipelines.definition.files import read_pipeline
from mainstem.pipelines.definition.pipeline import Mode
from mainstem.pipelines.running.run import PipelineRun
from mainstem.pipelines.running.starting import open_context
from mainstem.sdk.client import Client
from tests.support.clients.committed import committed_values
from tests.support.serving.queue_broker import QueueBroker

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.conformance]
ORDERS = 80


def invoiced(broker: QueueBroker) -> list[int]:
    with Client(broker.kafka) as client:
        return sorted(json.loads(value)["id"] for value in committed_values(client, "invoices"))


def run_declared(broker: QueueBroker, directory: Path) -> None:
    """What enrich.py does, as the file that declares it."""
    file = Path(enrich.__file__).with_name("invoices.yml")
    pipeline = read_pipeline(file, Mode.AVAILABLE_NOW)
    PipelineRun(open_context(pipeline, home=file.parent, address=broker.kafka, data_dir=str(directory))).execute()


def test_rejects_are_repaired_and_come_through(spark: SparkSession, queues: QueueBroker, tmp_path: Path) -> None:
    publish.publish(f"amqp://guest:guest@{queues.amqp}/", ORDERS)
    enrich.run(spark, queues.kafka, str(tmp_path / "invoices"))
    without_amount = {n for n in range(ORDERS) if n % publish.NO_AMOUNT_EVERY == 0}
    unknown = {n for n in range(ORDERS) if n % (publish.KNOWN_CUSTOMERS + 1) == publish.KNOWN_CUSTOMERS}
    good = sorted(set(range(ORDERS)) - without_amount - unknown)
    assert invoiced(queues) == good
    assert queues.counts("orders") == (0, 0)
    assert queues.counts("orders.dead") == (len(without_amount | unknown), 0)

    counts = repair.run(spark, queues.kafka, str(tmp_path / "repair"))
    assert counts == {
        ("rejected", "no amount"): len(without_amount),
        ("rejected", "unknown customer 7"): len(unknown - without_amount),
    }
    assert queues.counts("orders") == (len(without_amount), 0)
    assert queues.counts("orders.dead") == (len(unknown - without_amount), 0)

    run_declared(queues, tmp_path / "declared")
    assert invoiced(queues) == sorted([*good, *(without_amount - unknown)])
    assert queues.counts("orders") == (0, 0)
