"""One Spark and one broker for all tests of a process."""

from collections.abc import Iterator

import pytest

from tests.support.serving.kafka import Broker, serving
from tests.support.spark_fixtures import spark

__all__ = ["broker", "spark"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("spark-broker") / "data") as running:
        yield running
