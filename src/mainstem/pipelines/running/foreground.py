"""A run in the foreground: live on a terminal, lines elsewhere, Ctrl-C to end it."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from py4j.protocol import Py4JError
from rich.console import Console

from mainstem.pipelines.definition.broker_check import check_topics
from mainstem.pipelines.definition.pipeline import Mode, Pipeline
from mainstem.pipelines.options import ADDRESS_DEFAULT
from mainstem.pipelines.running.lines import Lines
from mainstem.pipelines.running.live_view import LiveView
from mainstem.pipelines.running.progress import SinkProgress
from mainstem.pipelines.running.reporting import ForegroundReporter
from mainstem.pipelines.running.run import PipelineRun, Watch
from mainstem.pipelines.running.starting import locked, open_context, pipeline_directory

ENDED_BY_SIGNAL = 128
"""What the exit status begins with where a signal ended what was to be done whole."""
LOST = (Py4JError, ConnectionError)
"""What is raised when Spark's own process is gone."""

Handlers: TypeAlias = dict[signal.Signals, Any]

logger = logging.getLogger("mainstem.pipeline")


def run_here(pipeline: Pipeline, *, home: Path, address: str | None, master: str | None, data_dir: str | None) -> int:
    """Until it is done or stopped; answers the exit status. Raises kinds of MainstemError."""
    with locked(pipeline_directory(pipeline.name, data_dir)), _Signals() as signals:
        check_topics(pipeline, address or pipeline.settings.address or ADDRESS_DEFAULT)
        logger.info("Spark is started for pipeline %s", pipeline.name)
        context = open_context(pipeline, home=home, address=address, master=master, data_dir=data_dir)
        lines = Lines(pipeline)
        console = Console(stderr=True)
        view = LiveView(console) if console.is_terminal else None
        if view is not None:
            # its lines would go through the table; what matters is told in a sentence
            context.session.sparkContext.setLogLevel("ERROR")

        def progress(now: SinkProgress) -> None:
            if view is None:
                lines.progress(now)
            else:
                view.update(run.progress)

        run = PipelineRun(context, Watch(on_start=_say_begun, on_progress=progress, on_broken=lines.broken))
        http = pipeline.settings.http_address
        reporter = ForegroundReporter(pipeline.name, run.progress, address=context.address, http=http)
        try:
            with signals.stopping(run), reporter, view.shown() if view is not None else contextlib.nullcontext():
                run.execute()
        except LOST:
            if signals.received is None:
                raise
            # A signal to all processes of a unit or a terminal ends Spark's own, too.
            logger.info("Spark has ended by the signal before the micro-batch was done: the next run does it again")
            return ENDED_BY_SIGNAL + int(signals.received)
        finally:
            with contextlib.suppress(*LOST) if signals.received is not None else contextlib.nullcontext():
                context.session.stop()
        for sink in run.progress.sinks.values():
            logger.info("%s: %s rows in, %s out, in %d batches", sink.sink, sink.rows_in, sink.rows_out, sink.batches)
        is_cut = signals.received is not None and pipeline.mode is not Mode.CONTINUOUS
        return ENDED_BY_SIGNAL + int(signals.received or 0) if is_cut else 0


def _say_begun() -> None:
    logger.info("the pipeline runs; Ctrl-C ends it after the micro-batch under way")


class _Signals:
    """SIGINT and SIGTERM, from before Spark is there until it is gone."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._run: PipelineRun | None = None
        self._before: Handlers = {}

    def __enter__(self) -> _Signals:
        self._before = self._install()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def stopping(self, run: PipelineRun) -> Iterator[None]:
        """They stop this run, also where they came before it."""
        self._run = run
        self._install()  # the session has set its own, which ends in the middle of whatever is done
        if self.received is not None:
            run.stop()
        try:
            yield
        finally:
            self._run = None

    def _install(self) -> Handlers:
        return {number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)}

    def _receive(self, number: int, _frame: object) -> None:
        is_second, self.received = self.received is not None, signal.Signals(number)
        if self._run is not None:
            print("\nending after the micro-batch under way; again: at once", file=sys.stderr)  # noqa: T201
            self._run.stop()
        elif is_second:
            raise SystemExit(ENDED_BY_SIGNAL + number)
        else:
            print("\nending once Spark can be ended; again: at once", file=sys.stderr)  # noqa: T201
