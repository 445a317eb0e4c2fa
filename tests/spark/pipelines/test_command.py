"""`mainstem pipeline run` as people run it: on a terminal, and elsewhere; ended by Ctrl-C, and gone on with."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.spark.deployment import definition, ids
from tests.support.clients.json_topics import send_json
from tests.support.serving.program import get
from tests.support.serving.served import Served

pytestmark = [pytest.mark.system, pytest.mark.slow]
PATIENCE_S = 240
CTRL_C = b"\x03"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    broker = Served(tmp_path / "data")
    yield broker
    broker.kill()


class Command:
    """A command on a terminal of its own, or with its standard error in a pipe."""

    def __init__(self, directory: Path, *words: str, on_terminal: bool) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAINSTEM_", "PYSPARK_"))}
        line = [sys.executable, "-m", "mainstem.cli", "pipeline", *words]
        self.text = ""
        self._terminal, end = pty.openpty() if on_terminal else os.pipe()
        settings = {**clean, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
        self.process = subprocess.Popen(
            line,
            cwd=directory,
            env=settings,
            stdin=end if on_terminal else subprocess.DEVNULL,
            stdout=end,
            stderr=end,
            start_new_session=True,
            preexec_fn=_take_terminal if on_terminal else None,
        )
        os.close(end)

    def wait(self, condition: Callable[[str], object], what: str = "") -> None:
        """Until this holds for what was written so far."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition(self.text):
            assert time.monotonic() < deadline, f"{what}\n{self.text[-5000:]}"
            assert self._read() or self.process.poll() is None, f"{what}\n{self.text[-5000:]}"

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def wait_end(self) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.text[-5000:]
            self._read()
        while self._read():
            pass
        os.close(self._terminal)
        return self.process.returncode

    def _read(self) -> bool:
        readable, _, _ = select.select([self._terminal], [], [], 0.1)
        try:
            data = os.read(self._terminal, 1 << 16) if readable else b""
        except OSError:  # the other end of a terminal is closed
            data = b""
        self.text += ESCAPES.sub("", data.decode(errors="replace"))
        return bool(data)


def _take_terminal() -> None:
    """The terminal that is standard input is this session's own."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_live_on_a_terminal_then_lines_and_going_on_where_it_was(served: Served, tmp_path: Path) -> None:
    (tmp_path / "copy.yml").write_text(definition("copy", "given", "taken"))
    words = ("run", "copy.yml", "--address", served.kafka, "--data-dir", str(tmp_path / "kept"))
    send_json(served, "given", [{"id": n} for n in range(70)])
    command = Command(tmp_path, *words, on_terminal=True)
    try:
        command.wait(
            lambda text: re.search(r"out +[\d,]+ +[\d,]+ +70 +\d+ +[\d.]+ s +0 +0 rows, 0 B", text), "the view"
        )
        assert re.search(r"sink +rows in/s +rows out/s +rows out +batch +time +lag +state", command.text)
        # measured as a deployed one is
        command.wait(lambda _: _measured(served).get("mainstem_pipeline_rows_out_total") == 70, "the measurements")
        assert _measured(served)["mainstem_pipeline_running"] == 1
        assert "Stage 0" not in command.text
        command.type(CTRL_C)
        assert command.wait_end() == 0, command.text
        assert "ending after the micro-batch under way" in command.text
        assert "Traceback" not in command.text
        assert "out: 70 rows in, 70 out" in command.text
    finally:
        command.process.kill()
    send_json(served, "given", [{"id": n} for n in range(70, 100)])
    command = Command(tmp_path, *words, on_terminal=False)
    try:
        command.wait(
            lambda text: re.search(r"INFO out: [\d,]+ rows/s in, [\d,]+ out, batch \d+ in [\d.]+ s, lag", text)
        )
        command.wait(lambda _: len(ids(served, "taken")) >= 100, "all rows")
        os.kill(command.process.pid, signal.SIGINT)
        assert command.wait_end() == 0
        assert "out: 30 rows in, 30 out" in command.text
        assert "Traceback" not in command.text
    finally:
        command.process.kill()
    assert sorted(ids(served, "taken")) == list(range(100))


def _measured(served: Served) -> dict[str, float]:
    """Of the pipeline `copy`."""
    lines = [line for line in get(served.http, "/metrics")[1].splitlines() if 'pipeline="copy"' in line]
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines}
