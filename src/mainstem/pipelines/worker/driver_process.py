"""One driver, as its worker sees it: a child process with a life line, a log and a word of its own.

    starting --on start--> running --end, all done--> finished
        |                     |
        '------ any other end of the process -------> failed --after a pause--> starting

Its standard input is the life line: when the worker is gone, however that came, the driver reads an end and ends too. What it
says on its status pipe is one line per change; everything else it writes is its log.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mainstem.pipelines.worker.bounded_log import BoundedLog

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0
HEALTHY_AFTER_S = 60.0
"""One that ran for so long is not punished for what happened before."""
STOP_PATIENCE_S = 75.0
"""Somewhat longer than a micro-batch may take at the end."""
READ_BYTES = 64 << 10
DRIVER = "mainstem.pipelines.worker.driver"


@dataclass(frozen=True)
class Order:
    """What the broker wants to be run."""

    name: str
    epoch: int
    identity: str
    revision: int
    file: str
    definition: str
    files: dict[str, str]


class DriverProcess:
    """One pipeline of a worker."""

    def __init__(self, order: Order, log: BoundedLog) -> None:
        self.order = order
        self.log = log
        self.condition = "starting"
        self.error = ""
        self.restarts = 0
        self.is_wanted = True
        self.is_removed = False
        self.next_order: Order | None = None
        """What is to be run when this one has ended."""
        self.log_sent = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._status_fd = -1
        self._status = b""
        self._said: list[str] = []
        self._begun_s = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._start_at_s = 0.0
        self._kill_at_s = float("inf")

    @property
    def is_alive(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    @property
    def due_s(self) -> float:
        """When something is to be done, by the monotonic clock."""
        if self._process is not None:
            return self._kill_at_s
        return self._start_at_s if self.is_wanted and self.condition != "finished" else float("inf")

    def descriptors(self) -> list[int]:
        """What is worth reading."""
        if self._process is None or self._process.stdout is None:
            return []
        return [self._process.stdout.fileno(), *([self._status_fd] if self._status_fd >= 0 else [])]

    def start(self, definition: Path, arguments: list[str]) -> None:
        """Begin, or begin again."""
        reading, writing = os.pipe()
        command = [sys.executable, "-m", DRIVER, str(definition), *arguments, "--status-fd", str(writing)]
        self._process = subprocess.Popen(  # noqa: S603 - this program itself
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            start_new_session=True,  # a Ctrl-C of the worker's terminal is the worker's to handle
        )
        os.close(writing)
        for descriptor in (reading, self._process.stdout.fileno()):  # type: ignore[union-attr]
            os.set_blocking(descriptor, False)
        self._status_fd, self._status, self._said = reading, b"", []
        self.condition = "starting"
        self._begun_s = time.monotonic()
        self._kill_at_s = float("inf")

    def put_off(self, error: str) -> None:
        """It cannot begin now."""
        self.error = error
        self._fail()

    def stop(self) -> None:
        """Ask it to end after the micro-batch under way."""
        self.is_wanted = False
        if self._process is not None and self._kill_at_s == float("inf"):
            self.condition = "stopping"
            self._kill_at_s = time.monotonic() + STOP_PATIENCE_S
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it now."""
        if self._process is not None:
            self._process.kill()

    def look(self) -> bool:
        """Takes in what it said, and whether it has ended. Answers whether its condition has changed."""
        if self._process is None:
            return False
        before = self.condition, self.error
        self._read()
        if time.monotonic() >= self._kill_at_s:
            self.kill()
        if self._process.poll() is not None:
            self._read()
            self._ended(self._process.returncode)
        return (self.condition, self.error) != before

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while data := _read(self._process.stdout.fileno()):
            self.log.append(data)
        while data := _read(self._status_fd):
            self._status += data
        *lines, self._status = self._status.split(b"\n")
        for line in lines:
            self._hear(line.decode("utf-8", "replace"))

    def _hear(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        self._said.append(word)
        if word == "running" and self.condition == "starting":
            self.condition, self.error = "running", ""
        elif word == "failed":
            self.error = rest

    def _ended(self, status: int) -> None:
        assert self._process is not None
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        os.close(self._status_fd)
        self._process, self._status_fd = None, -1
        if not self.is_wanted:
            return
        if status == 0 and "finished" in self._said:
            self.condition, self.error = "finished", ""
            return
        if time.monotonic() - self._begun_s > HEALTHY_AFTER_S:
            self._pause_s = FIRST_PAUSE_S
        if "failed" not in self._said:
            how = f"by signal {-status}" if status < 0 else f"with status {status}"
            self.error = f"The driver ended {how}; its log has more."
        self._fail()

    def _fail(self) -> None:
        self.condition = "failed"
        self.restarts += 1
        self._start_at_s = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return b""
