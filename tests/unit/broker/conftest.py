"""Tests that are given an engine run twice: its answers come at once where they can, and late."""

from collections.abc import Iterator

import pytest

from tests.support.worlds import brokers


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if getattr(metafunc.function, "takes_an_engine", False):
        metafunc.fixturenames.append("late_seed")
        metafunc.parametrize("late_seed", [None, 1], indirect=True, ids=["at-once", "late"])


@pytest.fixture
def late_seed(request: pytest.FixtureRequest) -> Iterator[None]:
    brokers.late_seed = request.param
    yield
    brokers.late_seed = None
