"""What a task asks of its process ends with it."""

from __future__ import annotations

import gc

import pytest

from mainstem.pipelines.task_memory import COLLECTOR_THRESHOLDS, task_memory


def test_cycles_are_looked_for_seldom_within_a_task_alone() -> None:
    before = gc.get_threshold()
    with task_memory():
        assert gc.get_threshold() == COLLECTOR_THRESHOLDS
    assert gc.get_threshold() == before
    with pytest.raises(ValueError, match="of the task"), task_memory():
        raise ValueError("of the task")
    assert gc.get_threshold() == before
    assert gc.isenabled()
