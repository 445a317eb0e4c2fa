"""kafka-python: how its tests are marked, and what it leaves behind."""

import gc
import warnings
from collections.abc import Iterator

import pytest

MARKS = [
    pytest.mark.conformance,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("left_sockets"),
]


@pytest.fixture
def left_sockets() -> Iterator[None]:
    """A client that is closed while it is about to connect forgets the socket: it goes here, not in somebody else's test."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        gc.collect()
