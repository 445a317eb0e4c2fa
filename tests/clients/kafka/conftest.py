"""One broker for the tests that do not end it."""

from collections.abc import Iterator

import pytest

from tests.clients.kafka.kafka_python import left_sockets
from tests.support.serving.kafka import QUICK_GROUPS, Broker, serving

__all__ = ["broker", "left_sockets"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("kafka") / "data", *QUICK_GROUPS) as running:
        yield running
