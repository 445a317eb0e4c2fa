"""Driver and broker are killed in queue mode: each message is settled once, and comes out once or dies once."""

from pathlib import Path

import pytest

from tests.spark.queue_mode.crash.job import ROWS_PER_BATCH
from tests.spark.queue_mode.crash.run import QueueCrashRun

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_kills_of_driver_and_broker_leave_no_trace(tmp_path: Path) -> None:
    """All points: `make spark-crash`."""
    with QueueCrashRun(tmp_path) as run:
        run.send(3 * ROWS_PER_BATCH)
        run.plan({"pinned/1": "broker", "after/1": "driver"})
        run.finish()
        assert (run.driver_kills, run.broker_kills) == (1, 1)
        assert run.faults() == []
