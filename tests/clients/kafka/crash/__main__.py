"""Kills a real broker under load from Kafka clients: python -m tests.clients.kafka.crash --cycles 200."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.clients.kafka.crash.cycle import CrashTest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.kafka.crash", description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where to write; default: a temporary directory")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mainstem-kafka-crash-") as temporary:
        directory = arguments.directory or Path(temporary)
        test = CrashTest(directory, arguments.seed, print if arguments.verbose else lambda text: None)
        test.run(arguments.cycles)
    print(
        f"{arguments.cycles} kills, {test.acknowledged} acknowledged records, {test.transactions} committed"
        f" transactions, offsets up to {test.offsets}, {test.settled} records settled by a share group:"
        f" nothing lost, doubled or torn, no offset gone back, nothing settled given again,"
        f" in {time.perf_counter() - began:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
