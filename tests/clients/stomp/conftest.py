"""One broker for the tests that do not end it; a queue name of its own for each."""

import uuid
from collections.abc import Iterator

import pytest

from tests.clients.stomp.serving import Broker, serving


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("stomp") / "data") as running:
        yield running


@pytest.fixture
def name() -> str:
    return f"q-{uuid.uuid4().hex[:10]}"
