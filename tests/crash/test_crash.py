"""Ten kills; `python -m tests.crash --cycles 1000` for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.victim import engine_at_work
from tests.support.crashing.driver import CrashTest

CYCLES = 10


@pytest.mark.system
@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    test = CrashTest(engine_at_work, tmp_path, seed=1)
    test.run(CYCLES)
    assert test.totals["acknowledged"] > CYCLES * 10
