"""Kills driver and broker at every named point of queue mode, and at random moments: `make spark-crash QUEUE_CYCLES=20`.

python -m tests.spark.queue_mode.crash --cycles 20 [--seed N] [--source queue|topic]
"""

import random
import sys
import tempfile
from pathlib import Path

from tests.spark.queue_mode.crash.job import ROWS_PER_BATCH, SOURCES
from tests.spark.queue_mode.crash.killing import SOURCE_POINTS
from tests.spark.queue_mode.crash.run import QueueCrashRun
from tests.support.crashing.spark.killing import POINTS, TARGETS
from tests.support.crashing.spark.run import command_line, kill_until

BATCHES_PER_CYCLE = 3
POINTS_SHARE = 0.5
"""Of cycles in which kills come at named points; in the others at any moment of the work."""
MOMENT_S_MAX = 3.0


def main() -> int:
    parser = command_line("tests.spark.queue_mode.crash", 20)
    parser.add_argument("--source", choices=sorted(SOURCES))
    given = parser.parse_args()
    chance = random.Random(given.seed)
    for source in [given.source] if given.source else sorted(SOURCES):
        print(f"{source}: seed {given.seed}, {given.cycles} kills", flush=True)
        prefix = "mainstem-queue-crash-"
        with tempfile.TemporaryDirectory(prefix=prefix) as name, QueueCrashRun(Path(name), source) as run:
            if status := crash(run, given.cycles, chance):
                return status
    return 0


def crash(run: QueueCrashRun, kills: int, chance: random.Random) -> int:
    def live_once() -> list[str]:
        run.send(BATCHES_PER_CYCLE * ROWS_PER_BATCH)
        if chance.random() < POINTS_SHARE:
            run.plan(planned(run, chance))
            run.finish()
        else:
            run.plan({})
            run.strike(chance.choice(TARGETS), chance.uniform(0, MOMENT_S_MAX))
        return run.faults() if run.left() == 0 else []

    def finish() -> list[str]:
        run.finish()
        return run.faults()

    return kill_until(run, kills, live_once, finish, lambda: f"{run.sent} sent, {run.left()} left")


def planned(run: QueueCrashRun, chance: random.Random) -> dict[str, str]:
    """A few kills of this life, at points that it is about to come to."""
    plan = {}
    for _ in range(chance.randrange(1, 4)):
        point = chance.choice((*POINTS, *SOURCE_POINTS))
        number = run.passed(point) if point in SOURCE_POINTS else run.published_batch()
        plan[f"{point}/{number + chance.randrange(1, 3)}"] = chance.choice(TARGETS)
    return plan


if __name__ == "__main__":
    sys.exit(main())
