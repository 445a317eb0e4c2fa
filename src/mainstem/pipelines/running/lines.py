"""Progress as lines of a log."""

from __future__ import annotations

import logging
import time

from mainstem.pipelines.definition.pipeline import Pipeline
from mainstem.pipelines.running.progress import BrokenRule, SinkProgress, line_of

LINE_S = 10.0
"""How often a sink's progress is a line."""

logger = logging.getLogger("mainstem.pipeline")


class Lines:
    """Progress as lines of the log."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._printed_at: dict[str, float] = {}

    def progress(self, now: SinkProgress) -> None:
        """Now and then."""
        clock = time.monotonic()
        if clock - self._printed_at.get(now.sink, -LINE_S) >= LINE_S:
            self._printed_at[now.sink] = clock
            logger.info("%s", line_of(now))

    def broken(self, found: BrokenRule) -> None:
        """Each time."""
        place = self._pipeline.expectations[found.rule].place
        logger.warning("%s: rule %s is broken by %d rows, as %s", place, found.rule, found.rows, found.example)
