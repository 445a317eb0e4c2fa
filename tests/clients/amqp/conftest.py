"""One broker for the tests that do not end it; a channel and a queue name of its own for each."""

import uuid
from collections.abc import Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.amqp.serving import Broker, serving


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("amqp") / "data") as running:
        yield running


@pytest.fixture
def channel(broker: Broker) -> Iterator[BlockingChannel]:
    with broker.channel() as opened:
        yield opened


@pytest.fixture
def name() -> str:
    return f"q-{uuid.uuid4().hex[:10]}"
