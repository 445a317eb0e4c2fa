"""Each row comes out once. The broker is killed at every named point, the driver at two; at all points: `make spark-crash`."""

from pathlib import Path

import pytest

from tests.spark.crash.run import SinkCrashRun, at_every_point
from tests.support.crashing.spark.killing import POINTS

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_a_driver_that_is_killed_writes_each_row_once(tmp_path: Path) -> None:
    with SinkCrashRun(tmp_path) as run:
        run.plan({f"{POINTS[0]}/1": "driver", f"{POINTS[-1]}/2": "driver"})
        run.finish(3)
        assert run.driver_kills == 2
        assert run.faults(3) == []


def test_a_broker_that_is_killed_anywhere_has_each_row_once(tmp_path: Path) -> None:
    with SinkCrashRun(tmp_path) as run:
        run.plan(at_every_point("broker"))
        run.finish(5)
        assert (run.broker_kills, run.driver_kills) == (len(POINTS), 0)
        assert run.faults(5) == []
