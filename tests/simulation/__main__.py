"""Runs seeded histories: python -m tests.simulation --seeds 1000."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.runner import report, run_local_seed, run_seeds, silence

FAILURES_SHOWN_MAX = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first one")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--verbose", action="store_true", help="the whole history of a single seed")
    arguments = parser.parse_args()
    began = time.perf_counter()
    if arguments.seed is not None:
        if not arguments.verbose:
            silence()
        outcomes = [run_local_seed(arguments.seed, tail=100_000 if arguments.verbose else 25)]
    else:
        outcomes = []
        for outcome in run_seeds(range(arguments.start, arguments.start + arguments.seeds)):
            outcomes.append(outcome)
            if outcome.violation and sum(o.violation is not None for o in outcomes) <= FAILURES_SHOWN_MAX:
                print(report(outcome), flush=True)
    seconds = time.perf_counter() - began
    failed = [outcome for outcome in outcomes if outcome.violation]
    if arguments.seed is not None and failed:
        print(report(failed[0]))
    print(
        f"{len(outcomes)} seeds, {len(failed)} failed; {sum(o.commits for o in outcomes)} commits, "
        f"{sum(o.recoveries for o in outcomes)} recoveries, {sum(o.steps for o in outcomes)} steps "
        f"in {seconds:.1f} s ({len(outcomes) / seconds:.0f} seeds/s)"
    )
    for invariant, count in Counter(o.invariant for o in failed).most_common():
        seeds = sorted(o.seed for o in failed if o.invariant == invariant)
        print(f"  {invariant}: {count} ({', '.join(map(str, seeds[:8]))}{' ...' if count > 8 else ''})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
