"""One broker for the tests that do not end it; a name of its own for each."""

import uuid
from collections.abc import Iterator

import pytest

from tests.clients.mqtt.devices import Devices
from tests.support.serving.mqtt import MqttBroker, serving


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttBroker]:
    with serving(tmp_path_factory.mktemp("mqtt") / "data") as running:
        yield running


@pytest.fixture
def devices(broker: MqttBroker) -> Iterator[Devices]:
    with Devices(broker) as made:
        yield made


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:10]}"
