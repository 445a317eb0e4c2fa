"""Driver and broker are killed at every named point; each row comes out once."""

from pathlib import Path

import pytest

from tests.spark.crash.run import SinkCrashRun
from tests.support.crashing.spark.killing import POINTS

pytestmark = [pytest.mark.system, pytest.mark.slow]


def at_every_point(target: str) -> dict[str, str]:
    """Each in a batch of its own."""
    return {f"{point}/{batch}": target for batch, point in enumerate(POINTS, 1)}


def test_a_driver_that_is_killed_anywhere_writes_each_row_once(tmp_path: Path) -> None:
    with SinkCrashRun(tmp_path) as run:
        run.plan(at_every_point("driver"))
        run.finish(5)
        assert run.driver_kills == len(POINTS)
        assert run.faults(5) == []


def test_a_broker_that_is_killed_anywhere_has_each_row_once(tmp_path: Path) -> None:
    with SinkCrashRun(tmp_path) as run:
        run.plan(at_every_point("broker"))
        run.finish(5)
        assert (run.broker_kills, run.driver_kills) == (len(POINTS), 0)
        assert run.faults(5) == []
