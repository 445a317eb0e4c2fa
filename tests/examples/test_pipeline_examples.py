"""The examples that are declared: real Kafka clients, real Spark, as their READMEs say."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mainstem.spark
from examples.clickstream import send as clickstream
from examples.orders_and_payments import send as orders_and_payments
from mainstem.pipelines.definition.files import read_pipeline
from mainstem.pipelines.definition.pipeline import Mode
from mainstem.pipelines.running.progress import RunProgress
from mainstem.pipelines.running.run import PipelineRun
from mainstem.pipelines.running.starting import open_context
from tests.support.clients.json_topics import records, rows
from tests.support.serving.served import Served

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.conformance]
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    broker = Served(tmp_path_factory.mktemp("examples") / "data")
    yield broker
    broker.kill()


def run(served: Served, file: str, directory: Path) -> RunProgress:
    pipeline = read_pipeline(EXAMPLES / file, Mode.AVAILABLE_NOW)
    found = PipelineRun(open_context(pipeline, home=directory, address=served.kafka, data_dir=str(directory)))
    found.execute()
    return found.progress


def test_clickstream(served: Served, spark: SparkSession, tmp_path: Path) -> None:
    sent = clickstream.send(served.kafka)
    progress = run(served, "clickstream/clickstream.yml", tmp_path)
    assert progress.sinks["sessions"].rows_in == sent
    sessions = sorted(rows(served, "sessions"), key=lambda row: row["begun"])
    assert [(row["user"], row["clicks"], row["pages"]) for row in sessions] == [
        ("ann", 3, ["cart", "home", "shoes"]),
        ("bob", 1, ["home"]),
        ("ann", 2, ["help", "home"]),
    ]
    minutes = mainstem.spark.read_table(str(tmp_path / "clicks_by_minute"), session=spark).collect()
    assert sorted((row.user, row.minute.minute, row.clicks) for row in minutes) == [
        ("ann", 0, 3),
        ("ann", 20, 2),
        ("bob", 1, 1),
    ]
    assert [record.value for record in records(served, "dead.clicks")] == [b"not json", b'{"page":"home"}']


def test_orders_and_payments(served: Served, spark: SparkSession, tmp_path: Path) -> None:
    orders_and_payments.send(served.kafka)
    progress = run(served, "orders_and_payments/payments.yml", tmp_path)
    found = [json.loads(record.value or b"") for record in records(served, "settled-orders")]
    assert sorted((row["id"], row["is_paid"]) for row in found) == [
        (1, True),
        (2, False),
        (3, True),
        (4, True),
        (5, True),
    ]
    assert progress.broken == {"in_full": 1}
