"""One Spark and one broker for all tests of a process: a session takes ten seconds to come up."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mainstem.spark
from tests.clients.kafka.serving import Broker, serving

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("spark-broker") / "data") as running:
        yield running


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
