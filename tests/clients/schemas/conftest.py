"""One broker for the tests that do not end it."""

from collections.abc import Iterator

import pytest

from tests.clients.schemas.serving import RegistryBroker
from tests.support.serving.kafka import QUICK_GROUPS
from tests.support.serving.lasting_broker import closing


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryBroker]:
    with closing(RegistryBroker(tmp_path_factory.mktemp("schemas") / "data", *QUICK_GROUPS)) as running:
        yield running
