"""A few kills; `make pulsar-kills` does 200."""

from pathlib import Path

import pytest

from tests.clients.pulsar.killing import run

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]


def test_nothing_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    assert run(tmp_path / "data", kills=2) > 0
