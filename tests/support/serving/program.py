"""The real program as a child process. Nothing here sleeps: lines and ends are awaited, with a bound."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mainstem.server.registry import REGISTERED

PATIENCE_S = 30
"""Bound of every wait: reached only when something is broken."""

ANY_PORT = "http=127.0.0.1:0"
ANY_OTHER_PORTS = {
    f"MAINSTEM_LISTEN_{name.upper().replace('-', '_')}": "127.0.0.1:0" for name in REGISTERED if name != "http"
}
"""Listeners that a test does not speak of take free ports, so that tests can run side by side."""


class Program:
    """`mainstem serve`, started."""

    def __init__(
        self, data_dir: Path, *options: str, environment: dict[str, str] | None = None, module: str = "mainstem.cli"
    ) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, "serve", "--data-dir", str(data_dir), *options],
            stdin=subprocess.DEVNULL,
            bufsize=0,  # so that what `select` says is all there is
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**clean, **ANY_OTHER_PORTS, **(environment or {})},
            cwd=data_dir.parent,
        )

    def wait_ready(self) -> dict[str, list[str]]:
        """The addresses of the ready line, by name."""
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        line = self.process.stdout.readline().decode() if readable else ""
        if not line.startswith("ready "):
            self.process.kill()
            raise AssertionError(f"not ready: {line!r}\n{self.process.communicate()[1].decode()}")
        addresses: dict[str, list[str]] = {}
        for name, address in re.findall(r"([\w+-]+)=(\S+)", line):
            addresses.setdefault(name, []).append(address)
        return addresses

    def wait_line(self, word: str) -> str:
        """The next line of standard output that begins with this word; others before it are passed over."""
        assert self.process.stdout is not None
        while True:
            readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
            line = self.process.stdout.readline().decode() if readable else ""
            if not line:
                self.process.kill()
                raise AssertionError(f"no line {word!r}\n{self.process.communicate()[1].decode()}")
            if line.startswith(word):
                return line

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_end(self) -> tuple[int, str, str]:
        """Exit status, and what is left on standard output and error."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"does not end\n{self.process.communicate()[1].decode()}") from None
        return self.process.returncode, out.decode(), err.decode()


@contextlib.contextmanager
def running(data_dir: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[Program]:
    program = Program(data_dir, *options, environment=environment)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.process.kill()
        program.process.communicate()


def get(address: str, path: str) -> tuple[int, str]:
    """As any HTTP client would ask."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_S) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def post(address: str, path: str, content: Any, headers: dict[str, str] | None = None) -> Any:
    """Send JSON, and read it; whatever is refused is an error of the test."""
    given = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(f"http://{address}{path}", json.dumps(content).encode(), given)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()}") from None
