"""A run in the foreground: live on a terminal, lines elsewhere, Ctrl-C to end it."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from mainstem.pipelines.definition.broker_check import check_topics
from mainstem.pipelines.definition.pipeline import Pipeline
from mainstem.pipelines.options import ADDRESS_DEFAULT
from mainstem.pipelines.running.lines import Lines
from mainstem.pipelines.running.progress import BrokenRule, RunProgress, SinkProgress
from mainstem.pipelines.running.run import PipelineRun, Watch
from mainstem.pipelines.running.starting import locked, open_context, pipeline_directory

logger = logging.getLogger("mainstem.pipeline")


def run_here(
    pipeline: Pipeline, *, home: Path, address: str | None, master: str | None, data_dir: str | None
) -> RunProgress:
    """Until it is done or stopped. Raises kinds of MainstemError."""
    with locked(pipeline_directory(pipeline.name, data_dir)):
        check_topics(pipeline, address or pipeline.settings.address or ADDRESS_DEFAULT)
        logger.info("Spark is started for pipeline %s", pipeline.name)
        context = open_context(pipeline, home=home, address=address, master=master, data_dir=data_dir)
        lines = Lines(pipeline)
        console = Console(stderr=True)
        shown = _Shown(console) if console.is_terminal else None

        def progress(now: SinkProgress) -> None:
            if shown is None:
                lines.progress(now)
            else:
                shown.update(run.progress)

        def broken(found: BrokenRule) -> None:
            lines.broken(found)

        run = PipelineRun(context, Watch(on_start=_say_begun, on_progress=progress, on_broken=broken))
        try:
            with _stopped_by_signals(run), shown or contextlib.nullcontext():
                run.execute()
        finally:
            context.session.stop()
        for sink in run.progress.sinks.values():
            logger.info("%s: %s rows in, %s out, in %d batches", sink.sink, sink.rows_in, sink.rows_out, sink.batches)
        return run.progress


def _say_begun() -> None:
    logger.info("the pipeline runs; Ctrl-C ends it after the micro-batch under way")


@contextlib.contextmanager
def _stopped_by_signals(run: PipelineRun) -> Iterator[None]:
    def stop(*_: object) -> None:
        print("\nending after the micro-batch under way; again: at once", file=sys.stderr)  # noqa: T201
        run.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Shown:
    """A table that stays in place, one line per sink."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=2, transient=False)

    def __enter__(self) -> _Shown:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def update(self, progress: RunProgress) -> None:
        """As of now."""
        table = Table("sink", "rows in/s", "rows out/s", "rows out", "batch", "time", "lag", "state rows", box=None)
        for now in progress.sinks.values():
            table.add_row(
                now.sink,
                f"{now.rows_in_per_s:,.0f}",
                f"{now.rows_out_per_s:,.0f}",
                f"{now.rows_out:,}",
                str(now.batch),
                f"{now.batch_ms / 1000:.1f} s",
                f"{now.lag:,}",
                f"{now.state_rows:,}",
            )
        for rule, rows in progress.broken.items():
            table.add_row(f"rule {rule}: {rows:,} rows broke it", style="yellow")
        self._live.update(table)
