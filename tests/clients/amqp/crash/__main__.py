"""Kills a real broker under load from AMQP clients: python -m tests.clients.amqp.crash --cycles 200."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.clients.amqp.crash.cycle import CrashTest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.amqp.crash", description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where to write; default: a temporary directory")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mainstem-amqp-crash-") as temporary:
        directory = arguments.directory or Path(temporary)
        test = CrashTest(directory, arguments.seed, print if arguments.verbose else lambda text: None)
        test.run(arguments.cycles)
    print(
        f"{arguments.cycles} kills, {test.confirmed} confirmed messages, {test.settled} acknowledged for good, "
        f"{test.delayed} delayed, {test.dead} dead letters: nothing lost, nothing given again, order kept, "
        f"in {time.perf_counter() - began:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
