"""One broker for all tests of a module; Spark is that of all tests."""

from collections.abc import Iterator

import pytest

from tests.spark.queue_mode.serving import QueueBroker


@pytest.fixture(scope="session")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueBroker]:
    broker = QueueBroker(tmp_path_factory.mktemp("queue-broker") / "data")
    yield broker
    broker.kill()
