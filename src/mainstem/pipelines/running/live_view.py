"""How a run is getting on, on a terminal: a table that stays in place, one line per sink. Lines of the log go above it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from mainstem.pipelines.running.progress import RunProgress, shown_bytes

REFRESHES_PER_S = 4


class LiveView:
    """Of one run."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=REFRESHES_PER_S)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """For as long as this lasts."""
        with self._live, _logging_above():
            yield

    def update(self, progress: RunProgress) -> None:
        """As of now."""
        table = Table("sink", "rows in/s", "rows out/s", "rows out", "batch", "time", "lag", "state", box=None)
        for now in progress.sinks.values():
            table.add_row(
                now.sink,
                f"{now.rows_in_per_s:,.0f}",
                f"{now.rows_out_per_s:,.0f}",
                f"{now.rows_out:,}",
                str(now.batch),
                f"{now.batch_ms / 1000:.1f} s",
                f"{now.lag:,}",
                f"{now.state_rows:,} rows, {shown_bytes(now.state_bytes)}",
            )
        for rule, rows in progress.broken.items():
            table.add_row(f"rule {rule}: {rows:,} rows broke it", style="yellow")
        self._live.update(table)


@contextmanager
def _logging_above() -> Iterator[None]:
    """Handlers that write to the terminal write above the table, which has taken the place of standard error meanwhile."""
    handlers = [one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler)]
    before = [(handler, handler.setStream(sys.stderr)) for handler in handlers if handler.stream is sys.__stderr__]
    try:
        yield
    finally:
        for handler, stream in before:
            if stream is not None:
                handler.setStream(stream)
