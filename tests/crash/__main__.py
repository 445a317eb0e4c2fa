"""Kills a real engine again and again: python -m tests.crash --cycles 1000."""

import sys

from tests.crash.victim import engine_at_work
from tests.support.crashing.command import run_command

if __name__ == "__main__":
    sys.exit(run_command("tests.crash", __doc__, engine_at_work, "{acknowledged} acknowledged commits, nothing lost"))
