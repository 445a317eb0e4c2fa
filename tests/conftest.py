"""Settings of every test run."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

# Deadlines measure a busy machine rather than the code. `again` is for tests that run a second time, as Python; `thorough` is for
# an evening.
settings.register_profile("quick", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("again", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

SPARK = ("tests/spark/", "tests/examples/")


class Scheduling(LoadScopeScheduling):
    """Where tests run side by side, those of a file share a process, and so do all that share a Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(SPARK) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Units begin in the order of the files, Spark's first: it takes longest."""
    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first."""
    items.sort(key=lambda item: not item.nodeid.startswith(SPARK))
