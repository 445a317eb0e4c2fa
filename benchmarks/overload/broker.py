"""A broker under overload: its memory, the delay of its loop, and how long it takes to end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.kafka.brokers import Running
from benchmarks.load import scratch

LISTENERS = ("amqp", "kafka", "http")
SAMPLE_SECONDS = 0.05
DELAY = re.compile(r"^mainstem_loop_delay_max_seconds (\S+)", re.MULTILINE)


class Overloaded:
    """One broker, with all its addresses."""

    def __init__(self, process: subprocess.Popen[str], addresses: dict[str, str], log: Path) -> None:
        self._process = process
        self._addresses = addresses
        self._log = log
        self._stopping = threading.Event()
        self.resident_mb_max = 0.0
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def at(self, listener: str) -> Running:
        """As a client of this protocol sees it."""
        return Running(self._process, self._addresses[listener])

    def loop_delay_ms(self) -> float:
        """The longest delay of a timer so far."""
        with urllib.request.urlopen(f"http://{self._addresses['http']}/metrics", timeout=60) as reply:
            found = DELAY.search(reply.read().decode())
        assert found is not None
        return float(found[1]) * 1000

    def log_lines(self) -> int:
        """What it has written to its log."""
        return self._log.read_text().count("\n")

    def end(self) -> float:
        """SIGTERM; answers after how many seconds it has ended. It must end well."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(120)
        assert status == 0, f"exit status {status}: {self._log.read_text()[-2_000:]}"
        return time.monotonic() - began

    def close(self) -> None:
        """Measure no more."""
        self._stopping.set()
        self._sampler.join()

    def _sample(self) -> None:
        running = Running(self._process, "")
        while not self._stopping.wait(SAMPLE_SECONDS):
            with contextlib.suppress(OSError, AssertionError):
                self.resident_mb_max = max(self.resident_mb_max, running.resident_kb() / 1024)


class Outcome(NamedTuple):
    """What became of a load."""

    sent: int
    stored: int
    """Of the queue or topic that has the fewest."""
    seconds: float
    second_p99_ms: float
    """Of another client: from a message to its confirm."""


@contextlib.contextmanager
def overloaded(parent: str | None, **settings: str) -> Iterator[Overloaded]:
    """Our broker on an empty directory, synced, with its default limits."""
    with scratch(parent) as directory, serving(Path(directory), **settings) as broker:
        yield broker


@contextlib.contextmanager
def serving(directory: Path, **settings: str) -> Iterator[Overloaded]:
    """Our broker on this directory."""
    command = [sys.executable, "-m", "mainstem.cli", "serve", "--data-dir", str(directory / "data")]
    for listener in LISTENERS:
        command += ["--listen", f"{listener}=127.0.0.1:0"]
    command += ["--listen", "management=off"]
    log = directory / "log"
    with log.open("a") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=dict(os.environ) | settings
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        addresses = dict(re.findall(r"(\S+)=(\S+)", line))
        assert set(LISTENERS) <= set(addresses), f"the broker did not start: {line!r} {log.read_text()}"
        broker = Overloaded(process, addresses, log)
        try:
            yield broker
        finally:
            broker.close()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
