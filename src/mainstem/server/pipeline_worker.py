"""`serve --pipelines`: a worker for deployed pipelines, as a child process of the broker.

The worker is the same program that `mainstem pipeline worker` runs; here it is started, started again when it ends, and ended
with the broker: before clients are drained, so that what its drivers have under way can still be committed. It holds its end of
a pipe and goes when the other end does, however the broker came to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import sys
from collections.abc import Iterable
from typing import Annotated

import msgspec

from mainstem.transport.address import Address

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
HEALTHY_AFTER_S = 60.0
STOP_PATIENCE_S = 100.0
"""Somewhat longer than the worker gives its drivers."""

log = logging.getLogger(__name__)


class PipelineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Pipelines that this broker runs itself."""

    worker: bool = False
    """Whether a worker is started with the broker, which runs deployed pipelines."""
    room: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20
    """How many pipelines it runs at most."""


class PipelineWorker:
    """The child."""

    def __init__(self, settings: PipelineSettings, data_directory: str) -> None:
        self._settings = settings
        self._data_directory = data_directory
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    def check(self, http: Iterable[Address]) -> None:
        """Whether it could run. Raises ValueError."""
        if not list(http):
            raise ValueError(
                "pipelines need the HTTP listener, which is off: --listen http=HOST:PORT, or no --pipelines"
            )
        if importlib.util.find_spec("pyspark") is None:
            raise ValueError("pipelines need Spark, which is not installed: pip install 'mainstem[spark]'")

    def start(self, http: Address) -> None:
        """Keep it running from now on."""
        address = Address("127.0.0.1", http.port) if http.is_wildcard else http
        self._task = asyncio.get_running_loop().create_task(self._keep(str(address)))

    async def stop(self) -> None:
        """End it, and with it its drivers after their micro-batches."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        process = self._process
        if process is None or process.returncode is not None:
            return
        log.info("the worker of pipelines is ended")
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_PATIENCE_S)
        except TimeoutError:
            log.warning("the worker of pipelines does not end: it is killed")
            process.kill()
            await process.wait()

    def kill(self) -> None:
        """Without a word: the broker must end now."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _keep(self, http: str) -> None:
        pause_s = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            self._process = await asyncio.create_subprocess_exec(*self._command(http), stdin=asyncio.subprocess.PIPE)
            status = await self._process.wait()
            if loop.time() - begun > HEALTHY_AFTER_S:
                pause_s = FIRST_PAUSE_S
            log.warning("the worker of pipelines ended with status %s; it is started again in %.0f s", status, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _command(self, http: str) -> list[str]:
        command = [sys.executable, "-m", "mainstem.cli", "pipeline", "worker", "--supervised", "--http", http]
        return [*command, "--data-dir", self._data_directory, "--room", str(self._settings.room)]
