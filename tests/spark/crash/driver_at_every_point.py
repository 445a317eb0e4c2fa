"""The driver is killed at every named point; each row comes out once. `make spark-crash` runs this."""

from pathlib import Path

import pytest

from tests.spark.crash.run import SinkCrashRun, at_every_point
from tests.support.crashing.spark.killing import POINTS

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_a_driver_that_is_killed_anywhere_writes_each_row_once(tmp_path: Path) -> None:
    with SinkCrashRun(tmp_path) as run:
        run.plan(at_every_point("driver"))
        run.finish(5)
        assert run.driver_kills == len(POINTS)
        assert run.faults(5) == []
