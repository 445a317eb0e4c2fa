"""The command line of a crash test: python -m NAME --cycles 200."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.support.crashing.driver import CrashTest, OpenVictim


def run_command(name: str, description: str | None, open_victim: OpenVictim, summary: str) -> int:
    """`summary` names the totals of the test in braces."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=description)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, help="where to write; default: a temporary directory")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mainstem-crash-") as temporary:
        directory = arguments.directory or Path(temporary)
        report = print if arguments.verbose else lambda text: None
        test = CrashTest(open_victim, directory, arguments.seed, report)
        test.run(arguments.cycles)
    seconds = time.perf_counter() - began
    print(f"{arguments.cycles} cycles: {summary.format_map(test.totals)}, in {seconds:.0f} s")
    return 0
