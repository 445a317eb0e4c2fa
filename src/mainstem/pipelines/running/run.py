"""A pipeline, run: from its queries' start to their end.

A stop waits for the micro-batches under way; where they take too long, or a second signal comes, they are given up, and
run again under the same numbers at the next start. Nothing is lost or doubled either way.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.model.errors import MainstemError
from mainstem.pipelines.definition.errors import DefinitionRefused
from mainstem.pipelines.definition.pipeline import Action, Expectation, Mode, Sink
from mainstem.pipelines.errors import PipelineError
from mainstem.pipelines.running.batch_record import BatchRecord
from mainstem.pipelines.running.context import RunContext
from mainstem.pipelines.running.error_messages import errors_at, sentence_of
from mainstem.pipelines.running.expectations import letters
from mainstem.pipelines.running.frames import Frames
from mainstem.pipelines.running.listening import RunListener
from mainstem.pipelines.running.progress import WRITTEN, BrokenRule, RunProgress, SinkProgress
from mainstem.pipelines.running.sinks import open_sink

LOOK_S = 5.0
"""How long is waited for events before the queries themselves are looked at."""
BATCH_PATIENCE_S = 60.0
"""How long a micro-batch under way may take when the run is stopped."""
BEGIN_PATIENCE_S = 30.0
"""How long a query may take to find its sources before the next one is started all the same."""
STEP_S = 0.05

logger = logging.getLogger(__name__)


class PipelineFailed(PipelineError):
    """A query has failed."""


@dataclass
class Watch:
    """Who wants to know."""

    on_start: Callable[[], None] = lambda: None
    on_progress: Callable[[SinkProgress], None] = lambda progress: None
    on_broken: Callable[[BrokenRule], None] = lambda broken: None


class PipelineRun:
    """One run."""

    def __init__(self, context: RunContext, watch: Watch | None = None) -> None:
        self._context = context
        self._pipeline = context.pipeline
        self._watch = watch or Watch()
        self.progress = RunProgress()
        self._listener = RunListener()
        self._is_stopping = threading.Event()
        self._is_hurried = threading.Event()

    def stop(self) -> None:
        """End after the micro-batches under way; said again, end now. May be called from a signal handler."""
        if self._is_stopping.is_set():
            self._is_hurried.set()
        self._is_stopping.set()
        self._listener.wake()

    def execute(self) -> None:
        """Until all is done, or somebody stops it. Raises PipelineFailed, DefinitionRefused."""
        if self._context.mode is Mode.BATCH:
            self._execute_batch()
        else:
            self._execute_queries()

    def check(self) -> None:
        """Analyses every plan, and starts nothing. Raises DefinitionRefused."""
        for sink, frame, _ in self._written():
            open_sink(sink, self._context).shaped(frame)

    # Streams

    def _execute_queries(self) -> None:
        streams = self._context.session.streams
        streams.addListener(self._listener)
        queries: dict[str, tuple[Sink, StreamingQuery]] = {}
        try:
            for sink, frame, _ in self._written():
                if self._is_stopping.is_set():
                    return
                with errors_at(sink.place):
                    query = open_sink(sink, self._context).start(_counted(frame, sink))
                queries[str(query.id)] = sink, query
                self._wait_begun(query)
            self._watch.on_start()
            self._follow(queries)
        finally:
            for _, query in queries.values():
                self._end(query)
            streams.removeListener(self._listener)

    def _wait_begun(self, query: StreamingQuery) -> None:
        """One after the other: each start runs several processes, and Spark gives them ten seconds to come up."""
        deadline = time.monotonic() + BEGIN_PATIENCE_S
        while query.isActive and not self._is_stopping.is_set() and time.monotonic() < deadline:
            if not str(query.status["message"]).startswith("Initializing"):
                return
            time.sleep(STEP_S)

    def _follow(self, queries: dict[str, tuple[Sink, StreamingQuery]]) -> None:
        running = set(queries)
        while running and not self._is_stopping.is_set():
            try:
                event = self._listener.events.get(timeout=LOOK_S)
            except queue.Empty:
                ended = {name for name in running if not queries[name][1].isActive}
            else:
                ended = {event.query} & running if event.progress is None else set()
                if event.progress is not None and event.query in queries:
                    self._note(queries[event.query][0].name, event.progress)
            for name in ended:
                error = queries[name][1].exception()
                if error is not None:
                    raise PipelineFailed(sentence_of(self._pipeline, error)) from None
            running -= ended

    def _note(self, sink: str, report: object) -> None:
        assert isinstance(report, dict)
        for broken in self.progress.note(sink, report):
            self._watch.on_broken(broken)
        self._watch.on_progress(self.progress.of(sink))

    def _end(self, query: StreamingQuery) -> None:
        deadline = time.monotonic() + BATCH_PATIENCE_S
        while query.isActive and query.status["isTriggerActive"]:
            if self._is_hurried.is_set() or time.monotonic() > deadline:
                break
            time.sleep(STEP_S)
        query.stop()

    # Batches

    def _execute_batch(self) -> None:
        """Spark is told to give up by another thread: this one waits for it."""
        is_over = threading.Event()

        def give_up() -> None:
            self._is_stopping.wait()
            if not is_over.is_set():
                self._context.session.sparkContext.cancelAllJobs()

        threading.Thread(target=give_up, name="batch-stop", daemon=True).start()
        self._watch.on_start()
        try:
            self._write_all()
        except DefinitionRefused:
            raise
        except (PySparkException, MainstemError) as error:
            if not self._is_stopping.is_set():
                raise PipelineFailed(sentence_of(self._pipeline, error)) from None
        finally:
            is_over.set()

    def _write_all(self) -> None:
        record = BatchRecord(self._context)
        for sink, frame, frames in self._written():
            if self._is_stopping.is_set():
                return
            if record.is_done(sink.name):
                continue
            begun = time.monotonic()
            counted, count = record.counted(frame)
            open_sink(record.begin(sink), record.context).write(counted)
            record.finish(sink.name)
            now = self.progress.of(sink.name)
            now.rows_out += count()
            now.batches += 1
            now.batch_ms = round((time.monotonic() - begun) * 1000)
            now.rows_out_per_s = now.rows_out / max(now.batch_ms / 1000, 0.001)
            for rule, observation in frames.observations.items():
                seen = observation.get
                if seen["rows"]:
                    self._watch.on_broken(self.progress.note_broken(rule, seen["rows"], seen["example"] or ""))
            self._watch.on_progress(now)
        record.close()

    # Frames

    def _written(self) -> list[tuple[Sink, DataFrame, Frames]]:
        """What is written where: the sinks of the definition, and those of dead letters."""
        found = []
        for sink in self._pipeline.sinks.values():
            frames = Frames(self._context, sink.name)
            found.append((sink, frames.rows(sink.origin), frames))
        for rule in self._pipeline.expectations.values():
            if rule.action is Action.DEAD_LETTER:
                frames = Frames(self._context, rule.name)
                with errors_at(rule.rule.place):
                    rows = letters(frames.broken_rows(rule), rule, self._pipeline.name)
                found.append((_letter_sink(rule), rows, frames))
        return found


def _letter_sink(rule: Expectation) -> Sink:
    assert rule.topic is not None
    return Sink(rule.name, "topic", rule.topic, rule.place, rule.on)


def _counted(frame: DataFrame, sink: Sink) -> DataFrame:
    """With a count of what is written, which Spark does not tell of every sink."""
    return frame.observe(WRITTEN + sink.name, F.count(F.lit(1)).alias("rows"))
