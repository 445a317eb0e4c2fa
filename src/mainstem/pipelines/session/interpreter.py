"""Which Python Spark starts: for its executors, and to look for data sources.

Spark takes the `python3` of the path, which in a virtual environment that is not activated is another one, without mainstem.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE, DRIVERS_VARIABLE = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"

_is_ours = False
"""Whether the variable is set by us, and may be changed."""


def choose_running() -> None:
    """The one that runs, where nobody has chosen: it has mainstem."""
    global _is_ours
    if not {VARIABLE, DRIVERS_VARIABLE} & os.environ.keys():
        os.environ[VARIABLE] = sys.executable
        _is_ours = True


def choose_for_session(is_local: bool) -> None:
    """That of a session that is about to start."""
    if VARIABLE in os.environ and not _is_ours:
        return
    if is_local:
        os.environ[VARIABLE] = sys.executable
        return
    # The name goes to the workers as it is: there it must mean theirs, and here ours.
    os.environ[VARIABLE] = "python3"
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
