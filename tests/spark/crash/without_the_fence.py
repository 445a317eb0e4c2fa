"""The control, which `make spark-crash` runs first: without the fence, rows come out twice, and the count must notice."""

from pathlib import Path

import pytest

from tests.spark.crash.run import SinkCrashRun

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_without_the_fence_rows_come_out_twice(tmp_path: Path) -> None:
    with SinkCrashRun(tmp_path, module="tests.spark.crash.unfenced") as run:
        run.plan({"after/1": "driver"})
        run.finish(2)
        assert run.driver_kills == 1
        assert any("came 2 times" in fault for fault in run.faults(2))
