"""One broker for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.management.both import Both
from tests.support.serving.program import running


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    listen = ("--listen", "amqp=127.0.0.1:0", "--listen", "management=127.0.0.1:0", "--listen", "http=off")
    with running(tmp_path / "data", *listen, "--listen", "kafka=off") as program:
        ready = program.wait_ready()
        yield Both(ready["amqp"][0], ready["management"][0])
