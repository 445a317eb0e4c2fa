"""What a task of ours asks of the process that Spark lends it."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from mainstem.kept_memory import keep_memory

KEPT_BYTES = 64 << 20
KEPT_PIECE_BYTES = 32 << 20
"""Pieces of a task are all of a size: what one was built in, the next one takes."""
COLLECTOR_THRESHOLDS = (100_000, 50, 50)
"""Columns make few objects and no cycles, and a look at all that numpy, pandas and Arrow have imported takes some 20 ms."""


@contextlib.contextmanager
def task_memory() -> Iterator[None]:
    """Within it cycles are looked for seldom. Freed memory is kept from now on: the next task of the process gains by it, too."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    keep_memory(KEPT_BYTES, KEPT_PIECE_BYTES)
    try:
        yield
    finally:
        gc.set_threshold(*before)
