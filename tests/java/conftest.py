"""One broker and one set of jars for all tools; without a way to the jars everything here skips."""

import itertools
from collections.abc import Iterator

import pytest

from tests.java.distribution import Distribution, NotReachable
from tests.java.tools import Tools
from tests.support.serving.kafka import QUICK_GROUPS, Broker, serving


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "java: drives Apache Kafka's Java client and tools; run by `make test-java`")


@pytest.fixture(scope="session")
def distribution() -> Distribution:
    try:
        return Distribution()
    except NotReachable as reason:
        pytest.skip(f"Kafka's Java tools are not to be had: {reason}")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("java") / "data", *QUICK_GROUPS) as running:
        yield running


@pytest.fixture
def tools(distribution: Distribution, broker: Broker) -> Tools:
    return Tools(distribution, broker)


@pytest.fixture
def topic(request: pytest.FixtureRequest, counter: Iterator[int]) -> str:
    return f"{request.node.originalname.removeprefix('test_')}-{next(counter)}"


@pytest.fixture(scope="session")
def counter() -> Iterator[int]:
    return itertools.count()
