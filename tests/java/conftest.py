"""One broker and one set of jars for all tools; without a way to the jars everything here skips."""

from collections.abc import Iterator

import pytest

from tests.clients.kafka.serving import QUICK_GROUPS, Broker, serving
from tests.java.distribution import Distribution, NotReachable


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "java: drives Apache Kafka's Java client and tools; run by `make test-java`")


@pytest.fixture(scope="session")
def distribution() -> Distribution:
    try:
        return Distribution()
    except NotReachable as reason:
        pytest.skip(f"Kafka's Java tools are not to be had: {reason}")


@pytest.fixture(scope="session")
def broker(distribution: Distribution, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("java") / "data", *QUICK_GROUPS) as running:
        yield running
