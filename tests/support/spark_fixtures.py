"""Fixtures of all tests that use Spark: one session and one broker for a process, since a session takes ten seconds to start."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import mainstem.spark
from tests.support.serving.queue_broker import QueueBroker


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    directory = tmp_path_factory.mktemp("spark")
    session = mainstem.spark.session(
        "tests",
        master="local[2]",
        data_dir=str(directory / "data"),
        settings={
            "spark.local.dir": str(directory / "local"),
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.driver.memory": "1g",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueBroker]:
    broker = QueueBroker(tmp_path_factory.mktemp("queue-broker") / "data")
    yield broker
    broker.kill()
