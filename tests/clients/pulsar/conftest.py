"""One broker for the tests that do not end it; a name of its own for each."""

import uuid
from collections.abc import Iterator

import pulsar
import pytest

from tests.support.serving.pulsar import PulsarServer, serving


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarServer]:
    with serving(tmp_path_factory.mktemp("pulsar") / "data") as running:
        yield running


@pytest.fixture
def client(broker: PulsarServer) -> Iterator[pulsar.Client]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    found = pulsar.Client(broker.url, operation_timeout_seconds=20, logger=quiet)
    yield found
    found.close()


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:10]}"
