"""One pipeline on Spark, for a worker: `python -m mainstem.pipelines.worker.driver DEFINITION ...`.

It runs under a lease: it reports to the broker, is told for how long it may go on, and ends at once when that time is over or its
epoch is not the present one. It ends too when its standard input does, because then its worker is gone.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from mainstem.model.errors import MainstemError
from mainstem.pipelines.definition.broker_check import check_topics
from mainstem.pipelines.definition.files import read_pipeline
from mainstem.pipelines.definition.pipeline import Mode, Pipeline
from mainstem.pipelines.running.lines import Lines
from mainstem.pipelines.running.reporting import REPORT_S, progress_content
from mainstem.pipelines.running.run import PipelineRun, Watch
from mainstem.pipelines.running.starting import (
    IDLE_SETTINGS,
    PipelineBusy,
    locked,
    open_context,
    pipeline_directory,
)
from mainstem.pipelines.session.session import start_session
from mainstem.pipelines.worker.built_in import built_in
from mainstem.sdk.errors import ClientError
from mainstem.sdk.http_api import ApiRefused, ask, path_of

RENEW_S = 6.0
"""How often the broker is asked whether this driver may go on, in any case."""
LOCK_PATIENCE_S = 30.0
FIRST_LEASE_S = 25.0
BUILT_IN_SUFFIX = ".builtin"
EXIT_FAILED, EXIT_FENCED, EXIT_ORPHANED = 1, 3, 4
STALE = ("stale-lease", "unknown-pipeline")

logger = logging.getLogger("mainstem.pipeline")


def main() -> None:
    """From start to end."""
    options = _options()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr, force=True
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    threading.Thread(target=_watch_life_line, name="life-line", daemon=True).start()
    status = Status(options.status_fd)
    try:
        with _own(pipeline_directory(options.name, options.data_dir)):
            if options.definition.suffix == BUILT_IN_SUFFIX:
                _run_built_in(options, status)
            else:
                _run(read_pipeline(options.definition), options, status)
    except MainstemError as error:
        logger.error("%s", error)  # noqa: TRY400 - an expected error has no trace
        status.say("failed", str(error))
        _end(EXIT_FAILED)
    _end(0)


def _run(pipeline: Pipeline, options: argparse.Namespace, status: Status) -> None:
    stopped = threading.Event()
    run: PipelineRun | None = None

    def stop(*_: object) -> None:
        stopped.set()
        if run is not None:
            run.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reporter = Reporter(options.http, options.name, options.epoch)
    address = pipeline.settings.address or options.address
    check_topics(pipeline, address)
    output = Path(options.data_dir) / "output" / pipeline.name
    context = open_context(
        pipeline,
        home=output,
        code=options.definition.parent,
        address=address,
        data_dir=options.data_dir,
    )
    lines = Lines(pipeline)

    def begun() -> None:
        logger.info("the pipeline runs")
        status.say("running")

    run = PipelineRun(context, Watch(on_start=begun, on_progress=lines.progress, on_broken=lines.broken))
    reporter.follow(run)
    if stopped.is_set():
        return
    run.execute()
    reporter.report()
    if pipeline.mode is not Mode.CONTINUOUS and not stopped.is_set():
        status.say("finished")
    logger.info("the pipeline has ended")
    context.session.stop()


def _run_built_in(options: argparse.Namespace, status: Status) -> None:
    """What the broker itself wants to be run: its definition is the name of a function."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Reporter(options.http, options.name, options.epoch)
    run = built_in(options.definition.read_text(encoding="utf-8").strip())
    session = start_session(
        options.name, master=None, data_dir=options.data_dir, checkpoint=None, settings=IDLE_SETTINGS, ui=False
    )
    logger.info("the pipeline runs")
    status.say("running")
    run(session, options.address, stopped)
    session.stop()


class Status:
    """Tells the worker what is going on, one line per change."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, word: str, text: str = "") -> None:
        """A word, and a sentence if there is one."""
        line = f"{word} {' '.join(text.split())}".strip()
        with contextlib.suppress(OSError):
            os.write(self._descriptor, line.encode()[:4_000] + b"\n")


class Reporter:
    """Tells the broker, and learns for how long this driver may go on."""

    def __init__(self, http_address: str, name: str, epoch: int) -> None:
        self._http = http_address
        self._name = name
        self._epoch = epoch
        self._id = uuid.uuid4().hex
        self._run: PipelineRun | None = None
        self._until_s = time.monotonic() + FIRST_LEASE_S
        threading.Thread(target=self._work, name="reporter", daemon=True).start()

    def follow(self, run: PipelineRun) -> None:
        """From now on there is progress to tell."""
        self._run = run

    def report(self) -> None:
        """Once. Ends the process if it must not go on."""
        content = progress_content(None if self._run is None else self._run.progress, self._id, self._epoch)
        sent = time.monotonic()
        try:
            path = path_of("v1", "pipelines", self._name, "progress")
            answer = ask(self._http, "POST", path, content, timeout_s=5.0)
        except ApiRefused as refusal:
            if refusal.problem in STALE:
                _fence(refusal.detail)
            logger.warning("the progress is not told: %s", refusal)
        except ClientError:
            pass  # the lease tells how long that may be so
        else:
            self._until_s = sent + answer["lease_ms"] / 1000
        if time.monotonic() >= self._until_s:
            _fence("the broker has not been reached for the time of a lease")

    def _work(self) -> None:
        reported, reported_s = -1, -RENEW_S
        while True:
            now = time.monotonic()
            done = self._run.progress.count() if self._run is not None else -1
            if done != reported or now - reported_s >= RENEW_S or now >= self._until_s:
                reported, reported_s = done, now
                self.report()
            time.sleep(REPORT_S)


@contextlib.contextmanager
def _own(directory: Path) -> Iterator[None]:
    """The lock of the pipeline; a driver that is just ending is waited for."""
    deadline = time.monotonic() + LOCK_PATIENCE_S
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(directory))
                break
            except PipelineBusy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        yield


def _watch_life_line() -> None:
    """The worker never writes there: what can be read is its end."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    _end(EXIT_ORPHANED)


def _fence(reason: str) -> None:
    logger.error("this driver must not go on: %s", reason)
    _end(EXIT_FENCED)


def _end(status: int) -> None:
    """At once: Spark's JVM ends when this process is gone."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("definition", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--http", required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--status-fd", type=int, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
