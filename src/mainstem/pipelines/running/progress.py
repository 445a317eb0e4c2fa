"""How a run is getting on, sink by sink, from what Spark tells of each micro-batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mainstem.pipelines.running.expectations import OBSERVED
from mainstem.pipelines.source.stream_offsets import StreamOffsets

KIBI = 1024
WRITTEN = "rows:"
"""What the name of the count of written rows begins with."""


@dataclass
class SinkProgress:
    """The query of one sink."""

    sink: str
    rows_in: int = 0
    rows_out: int = 0
    rows_in_per_s: float = 0.0
    rows_out_per_s: float = 0.0
    batches: int = 0
    batch: int = -1
    batch_ms: int = 0
    lag: int = 0
    """Records that are there and not read yet."""
    state_rows: int = 0
    state_bytes: int = 0

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class BrokenRule:
    """What one micro-batch has seen of a rule."""

    rule: str
    rows: int
    example: str


@dataclass
class RunProgress:
    """All sinks of a run, and how often each rule was broken."""

    sinks: dict[str, SinkProgress] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)

    def of(self, sink: str) -> SinkProgress:
        """The progress of one sink."""
        return self.sinks.setdefault(sink, SinkProgress(sink))

    def count(self) -> int:
        """Grows with every micro-batch."""
        return sum(sink.batches for sink in list(self.sinks.values()))

    def note(self, sink: str, report: Mapping[str, Any]) -> list[BrokenRule]:
        """Takes in the JSON of a micro-batch; answers the rules that it broke."""
        now = self.of(sink)
        durations = report.get("durationMs") or {}
        seconds = durations.get("triggerExecution", 0) / 1000
        metrics = report.get("observedMetrics") or {}
        written = _number(metrics.get(WRITTEN + sink), "rows")
        read = sum(int(source.get("numInputRows") or 0) for source in report.get("sources") or ())
        is_work = bool(read or written or "addBatch" in durations)
        now.rows_in += read
        now.rows_out += written
        now.rows_in_per_s = read / seconds if seconds else 0.0
        now.rows_out_per_s = written / seconds if seconds else 0.0
        now.batch = int(report.get("batchId", -1))
        if is_work:
            now.batches += 1
            now.batch_ms = int(durations.get("triggerExecution", 0))
        now.lag = sum(_lag(source) for source in report.get("sources") or ())
        operators = report.get("stateOperators") or ()
        now.state_rows = sum(int(one.get("numRowsTotal") or 0) for one in operators)
        now.state_bytes = sum(int(one.get("memoryUsedBytes") or 0) for one in operators)
        return [found for name, row in metrics.items() if (found := self._broken(name, row)) is not None]

    def _broken(self, name: str, row: Any) -> BrokenRule | None:
        if not name.startswith(OBSERVED):
            return None
        rows, rule = _number(row, "rows"), name.removeprefix(OBSERVED)
        if not rows:
            return None
        return self.note_broken(rule, rows, str(row.get("example") or ""))

    def note_broken(self, rule: str, rows: int, example: str) -> BrokenRule:
        """Rows that broke a rule."""
        self.broken[rule] = self.broken.get(rule, 0) + rows
        return BrokenRule(rule, rows, example)


def line_of(now: SinkProgress) -> str:
    """For people."""
    text = (
        f"{now.sink}: {now.rows_in_per_s:,.0f} rows/s in, {now.rows_out_per_s:,.0f} out, "
        f"batch {now.batch} in {now.batch_ms / 1000:.1f} s, lag {now.lag:,}"
    )
    return f"{text}, state {now.state_rows:,} rows, {shown_bytes(now.state_bytes)}" if now.state_rows else text


def shown_bytes(count: int) -> str:
    """For people: 1.5 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < KIBI:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= KIBI
    return f"{size:.1f} GiB"


def _number(row: Any, name: str) -> int:
    return int(row.get(name) or 0) if isinstance(row, Mapping) else 0


def _lag(source: Mapping[str, Any]) -> int:
    latest, end = _position(source.get("latestOffset")), _position(source.get("endOffset"))
    if latest is None or end is None:
        return 0
    return sum(max(0, offset - end.offsets.get(at, 0)) for at, offset in latest.offsets.items())


def _position(given: Any) -> StreamOffsets | None:
    """Of our source; what other sources say of themselves is not counted in records."""
    try:
        plain = json.loads(given) if isinstance(given, str) else given
        return StreamOffsets.parse(plain) if isinstance(plain, dict) and "@group" in plain else None
    except (ValueError, TypeError, AttributeError):
        return None
