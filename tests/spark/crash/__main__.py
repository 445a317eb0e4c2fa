"""Kills driver and broker again and again, at named points and at random moments: `make spark-crash CYCLES=50`.

python -m tests.spark.crash --cycles 50 [--seed N]
"""

import random
import sys
import tempfile
from pathlib import Path

from tests.spark.crash.run import SinkCrashRun
from tests.support.crashing.spark.killing import POINTS
from tests.support.crashing.spark.run import command_line, kill_until

BATCHES_PER_CYCLE = 2
"""A query that is killed too soon gets nowhere: every cycle goes on until there are this many more batches."""
MOMENT_S_MAX = 4.0
POINTS_SHARE = 0.6
"""Share of cycles in which the driver is killed at a named point; in the others at any moment."""


class Cycles:
    """One life of the driver after the other."""

    def __init__(self, run: SinkCrashRun, chance: random.Random) -> None:
        self._run = run
        self._chance = chance
        self._last_batch = 0

    def live_once(self) -> list[str]:
        """The broker is killed a few times at named points, then the driver, at one or anywhere."""
        run, chance = self._run, self._chance
        planned: dict[str, str] = {}
        for _ in range(chance.randrange(4)):
            self._last_batch += 1
            planned[f"{chance.choice(POINTS)}/{self._last_batch}"] = "broker"
        self._last_batch += 1
        by_point = chance.random() < POINTS_SHARE
        if by_point:
            planned[f"{chance.choice(POINTS)}/{self._last_batch}"] = "driver"
        run.plan(planned)
        if by_point:
            run.live(self._last_batch + BATCHES_PER_CYCLE)
        else:
            run.live_until(self._last_batch, chance.uniform(0, MOMENT_S_MAX))
        self._last_batch = max(self._last_batch, run.published_batch()) + BATCHES_PER_CYCLE
        return run.faults(0)

    def finish(self) -> list[str]:
        self._run.finish(self._last_batch)
        return self._run.faults(self._last_batch)


def main() -> int:
    given = command_line("tests.spark.crash", 50).parse_args()
    print(f"seed {given.seed}, {given.cycles} kills", flush=True)
    with tempfile.TemporaryDirectory(prefix="mainstem-spark-crash-") as name, SinkCrashRun(Path(name)) as run:
        cycles = Cycles(run, random.Random(given.seed))
        progress = lambda: f"batch {run.published_batch()}"  # noqa: E731
        return kill_until(run, given.cycles, cycles.live_once, cycles.finish, progress)


if __name__ == "__main__":
    sys.exit(main())
