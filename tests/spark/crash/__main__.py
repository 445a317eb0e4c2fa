"""Kills driver and broker again and again, at named points and at random moments: `make spark-crash CYCLES=50`.

python -m tests.spark.crash --cycles 50 [--seed N]
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.spark.crash.killing import POINTS
from tests.spark.crash.run import CrashRun

BATCHES_PER_CYCLE = 2
"""A query that is killed too soon comes nowhere: every cycle goes on until there are so many more batches."""
MOMENT_S_MAX = 4.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.spark.crash")
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    chance = random.Random(given.seed)
    print(f"seed {given.seed}, {given.cycles} kills", flush=True)
    with tempfile.TemporaryDirectory(prefix="mainstem-spark-crash-") as name, CrashRun(Path(name)) as run:
        return cycles(run, given.cycles, chance)


def cycles(run: CrashRun, count: int, chance: random.Random) -> int:
    started = time.monotonic()
    last_batch, kills = 0, 0
    while kills < count:
        # One life of the driver: the broker is killed a few times at named points, then the driver, at one or anywhere.
        planned: dict[str, str] = {}
        for _ in range(chance.randrange(4)):
            last_batch += 1
            planned[f"{chance.choice(POINTS)}/{last_batch}"] = "broker"
        last_batch += 1
        by_point = chance.random() < 0.6
        if by_point:
            planned[f"{chance.choice(POINTS)}/{last_batch}"] = "driver"
        run.plan(planned)
        before = run.driver_kills, run.broker_kills
        if by_point:
            run.live(last_batch + BATCHES_PER_CYCLE)
        else:
            run.live_until(last_batch, chance.uniform(0, MOMENT_S_MAX))
        last_batch = max(last_batch, run.published_batch()) + BATCHES_PER_CYCLE
        kills += run.driver_kills - before[0] + run.broker_kills - before[1]
        faults = run.faults(0)
        print(
            f"{kills} kills: {run.driver_kills} of the driver, {run.broker_kills} of the broker; "
            f"batch {run.published_batch()}, {time.monotonic() - started:.0f} s",
            flush=True,
        )
        if faults:
            print("\n".join(faults[:20]), file=sys.stderr)
            return 1
    run.plan({})
    run.finish(last_batch)
    faults = run.faults(last_batch)
    print("\n".join(faults[:20]) or f"every row came out once, in {run.published_batch() + 1} batches", flush=True)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
