"""Kills a real engine again and again: python -m tests.crash --cycles 1000."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.cycle import CrashTest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where to write; default: a temporary directory")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mainstem-crash-") as temporary:
        directory = arguments.directory or Path(temporary)
        test = CrashTest(directory, arguments.seed, print if arguments.verbose else lambda text: None)
        test.run(arguments.cycles)
    seconds = time.perf_counter() - began
    print(f"{arguments.cycles} cycles, {test.total} acknowledged commits, nothing lost, in {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
