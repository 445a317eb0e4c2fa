"""One Spark and one broker for all tests of a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.deployment import MARK, kill
from tests.support.serving.kafka import Broker, serving
from tests.support.spark_fixtures import spark

__all__ = ["broker", "mark", "spark"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("spark-broker") / "data") as running:
        yield running


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """In the environment of all processes of a deployed pipeline, which are killed at the end."""
    mark = str(tmp_path)
    monkeypatch.setenv(MARK, mark)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    yield mark
    kill(mark, "worker", "driver", "java")
