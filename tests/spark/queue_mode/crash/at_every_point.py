"""Not part of `make test`, for its minutes: driver and broker are killed at every named point; each message is settled once."""

from pathlib import Path

import pytest

from tests.spark.queue_mode.crash.job import ROWS_PER_BATCH, SOURCES
from tests.spark.queue_mode.crash.killing import SOURCE_POINTS
from tests.spark.queue_mode.crash.run import QueueCrashRun
from tests.support.crashing.spark.killing import POINTS, TARGETS

BATCHES = 12


def at_every_point(target: str) -> dict[str, str]:
    """Those of the source by how often they are reached, those of the sink each in a batch of its own."""
    source = {f"{point}/{2 * at + 1}": target for at, point in enumerate(SOURCE_POINTS)}
    return source | {f"{point}/{batch}": target for batch, point in enumerate(POINTS, 4)}


@pytest.mark.parametrize("source", sorted(SOURCES))
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_each_is_settled_once(tmp_path: Path, target: str, source: str) -> None:
    with QueueCrashRun(tmp_path, source) as run:
        run.send(BATCHES * ROWS_PER_BATCH)
        run.plan(at_every_point(target))
        run.finish()
        kills = (run.driver_kills, run.broker_kills)
        assert kills == ((7, 0) if target == "driver" else (0, 7))
        assert run.faults() == []
