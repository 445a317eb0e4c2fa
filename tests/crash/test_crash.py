"""Twenty kills; `python -m tests.crash --cycles 1000` for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.cycle import CrashTest

CYCLES = 20


@pytest.mark.system
@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    test = CrashTest(tmp_path, seed=1)
    test.run(CYCLES)
    assert test.total > CYCLES * 10
