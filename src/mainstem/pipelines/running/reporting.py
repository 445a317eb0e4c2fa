"""A run in the foreground tells the broker how it is getting on, so that it is measured as deployed ones are."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from mainstem.model.errors import MainstemError
from mainstem.pipelines.running.progress import RunProgress
from mainstem.sdk.client import Client
from mainstem.sdk.http_api import ask, path_of
from mainstem.sdk.stages import http_address

REPORT_S = 2.0
"""How often progress is told, where there is some."""
RENEW_S = 10.0
"""How often it is told that the run goes on, in any case."""
TIMEOUT_S = 5.0
FOREGROUND = 0
"""In place of the epoch of a lease."""

logger = logging.getLogger(__name__)


def progress_content(progress: RunProgress | None, run: str, epoch: int) -> dict[str, Any]:
    """What the broker is told of a run."""
    sinks = [] if progress is None else [sink.plain() for sink in list(progress.sinks.values())]
    return {"epoch": epoch, "run": run, "sinks": sinks, "broken": {} if progress is None else dict(progress.broken)}


class ForegroundReporter:
    """On a thread of its own: a broker that is slow or away holds up nothing."""

    def __init__(self, name: str, progress: RunProgress, *, address: str, http: str | None) -> None:
        self._name = name
        self._progress = progress
        self._address = address
        self._http = http
        self._id = uuid.uuid4().hex
        self._is_over = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=self._work, name="reporter", daemon=True)

    def __enter__(self) -> ForegroundReporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """What came last is told, too."""
        self._is_over.set()
        self._thread.join(2 * TIMEOUT_S)

    def _work(self) -> None:
        reported, reported_s, is_over = -1, -RENEW_S, False
        while not is_over:
            is_over = self._is_over.wait(REPORT_S)
            done, now = self._progress.count(), time.monotonic()
            if done != reported or now - reported_s >= RENEW_S:
                reported, reported_s = done, now
                self._quietly(self._report)

    def _report(self) -> None:
        if self._http is None:
            with Client(self._address, timeout_s=TIMEOUT_S, client_id="mainstem-pipeline") as client:
                self._http = http_address(client)
        content = progress_content(self._progress, self._id, FOREGROUND)
        ask(self._http, "POST", path_of("v1", "pipelines", self._name, "progress"), content, timeout_s=TIMEOUT_S)

    def _quietly(self, call: Callable[[], None]) -> None:
        """What goes wrong is said once, and tried again."""
        try:
            call()
            self._said = ""
        except MainstemError as error:
            if str(error) != self._said:
                logger.warning("the broker does not show this run: %s", error)
            self._said = str(error)
