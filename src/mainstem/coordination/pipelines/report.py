"""What is reported of running pipelines. Kept in memory: their workers report again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

LOG_CHARACTERS_MAX = 64 << 10
"""The newest lines of each pipeline."""
SINKS_MAX = 50
RULES_MAX = 200
ERROR_CHARACTERS_MAX = 4_000

Condition: TypeAlias = Literal["starting", "running", "stopping", "failed", "finished"]


class SinkReport(msgspec.Struct, frozen=True):
    """How the query of one sink is getting on."""

    sink: str
    rows_in: int = 0
    rows_out: int = 0
    rows_in_per_s: float = 0.0
    rows_out_per_s: float = 0.0
    batches: int = 0
    batch: int = -1
    batch_ms: int = 0
    lag: int = 0
    state_rows: int = 0
    state_bytes: int = 0


class Report:
    """Of one pipeline, by its newest report."""

    def __init__(self) -> None:
        self.condition: Condition = "starting"
        self.error = ""
        self.restarts = 0
        self.changed_ms = 0
        self.progress_ms = 0
        self.sinks: dict[str, SinkReport] = {}
        self.broken: dict[str, int] = {}
        self.log = LogTail()
        self._run = ""
        self._before: dict[str, tuple[int, int]] = {}
        self._broken_before: dict[str, int] = {}

    def note_condition(self, condition: Condition, error: str, restarts: int, now_ms: int) -> None:
        """What the worker says."""
        if condition != self.condition:
            self.changed_ms = now_ms
        self.condition, self.error, self.restarts = condition, error[:ERROR_CHARACTERS_MAX], restarts

    def note_progress(self, run: str, sinks: Sequence[SinkReport], broken: Mapping[str, int], now_ms: int) -> None:
        """What the driver says; its numbers begin at 0 with each run, ours go on."""
        if run != self._run:
            self._run = run
            self._before = {name: (sink.rows_in, sink.rows_out) for name, sink in self.sinks.items()}
            self._broken_before = dict(self.broken)
        self.progress_ms = now_ms
        for sink in sinks[:SINKS_MAX]:
            rows_in, rows_out = self._before.get(sink.sink, (0, 0))
            if sink.sink in self.sinks or len(self.sinks) < SINKS_MAX:
                self.sinks[sink.sink] = msgspec.structs.replace(
                    sink, rows_in=sink.rows_in + rows_in, rows_out=sink.rows_out + rows_out
                )
        for rule, rows in list(broken.items())[:RULES_MAX]:
            if rule in self.broken or len(self.broken) < RULES_MAX:
                self.broken[rule] = rows + self._broken_before.get(rule, 0)


class LogTail:
    """The newest of a log that is written elsewhere, by positions in characters."""

    def __init__(self) -> None:
        self.source = ""
        """Whose positions these are: a worker that was started again counts anew."""
        self.begin = 0
        self.text = ""

    @property
    def end(self) -> int:
        """The position behind the last character."""
        return self.begin + len(self.text)

    def append(self, source: str, position: int, text: str) -> None:
        """What was written there. A gap, or another source, begins anew; what is known already is left out."""
        if source != self.source or position > self.end or position < self.begin:
            self.source, self.begin, self.text = source, position, ""
        self.text += text[self.end - position :]
        if (over := len(self.text) - LOG_CHARACTERS_MAX) > 0:
            self.begin += over
            self.text = self.text[over:]

    def after(self, position: int) -> tuple[int, str]:
        """What is behind a position, and where that begins; all that is kept if the position is not of this log."""
        if not self.begin <= position <= self.end:
            return self.begin, self.text
        return position, self.text[position - self.begin :]
