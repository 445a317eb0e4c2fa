"""One broker for the tests that do not end it; a name of its own for each."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.serving.rocketmq import RocketmqBroker, serving


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketmqBroker]:
    with serving(tmp_path_factory.mktemp("rocketmq") / "data") as running:
        yield running


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:10]}"
