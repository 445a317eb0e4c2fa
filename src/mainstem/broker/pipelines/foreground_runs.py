"""Pipelines that somebody runs at a terminal: what they report, for as long as they do.

Nobody gave them out and nothing of them is stored: the broker knows of them what it needs to measure them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainstem.broker.clock import Clock
from mainstem.coordination.pipelines.errors import DeploymentError
from mainstem.coordination.pipelines.report import Report, SinkReport

RUNS_MAX = 200
SILENCE_S = 30.0
"""One that was not heard of for so long is over."""


class ForegroundRuns:
    """By the name of the pipeline."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: dict[str, tuple[Report, float]] = {}

    def all(self) -> dict[str, Report]:
        """Those that were heard of lately."""
        since = self._clock.monotonic() - SILENCE_S
        self._heard = {name: heard for name, heard in self._heard.items() if heard[1] >= since}
        return {name: report for name, (report, _) in self._heard.items()}

    def note(self, name: str, run: str, sinks: Sequence[SinkReport], broken: Mapping[str, int]) -> None:
        """One of them says how it is getting on. Raises DeploymentError where there are too many."""
        known = self.all()
        if name not in known and len(known) >= RUNS_MAX:
            raise DeploymentError(f"{RUNS_MAX} pipelines in the foreground are shown already")
        report = known.get(name) or Report()
        report.note_progress(run, sinks, broken, self._clock.now_ms())
        self._heard[name] = report, self._clock.monotonic()
