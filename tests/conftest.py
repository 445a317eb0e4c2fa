"""Settings of every test run."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Deadlines measure a busy machine rather than the code; `thorough` is for an evening.
settings.register_profile("quick", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

SPARK = Path(__file__).parent / "spark", Path(__file__).parent / "examples"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run side by side, those of a file share a process, and so do all that share a Spark session.

    What takes longest begins first.
    """
    for item in items:
        with_spark = any(item.path.is_relative_to(directory) for directory in SPARK)
        item.add_marker(pytest.mark.xdist_group("spark" if with_spark else str(item.path)))
    items.sort(key=lambda item: not any(item.path.is_relative_to(directory) for directory in SPARK))
