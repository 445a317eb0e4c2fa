"""Runs commands against a broker, in a pipe or at a terminal."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.serving.program import ANY_PORT, PATIENCE_S, running


class Shell:
    """Runs commands against one broker."""

    def __init__(self, address: str, home: Path) -> None:
        self.address = address
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
        self.environment = {
            **clean, "MAINSTEM_ADDRESS": address, "MAINSTEM_CONTEXTS": str(home / "contexts.toml"), "COLUMNS": "200",
        }  # fmt: skip

    def run(self, *words: str, given: str | bytes = b"", status: int = 0) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "mainstem.cli", *words],
            input=given.encode() if isinstance(given, str) else given,
            capture_output=True,
            env=self.environment,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == status, f"{words}: {ran.returncode} {ran.stdout.decode()} {ran.stderr.decode()}"
        self.errors = ran.stderr.decode()
        return ran.stdout.decode()

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """A command that goes on while others run."""
        return subprocess.Popen(
            [sys.executable, "-m", "mainstem.cli", *words], stdout=subprocess.PIPE, env=self.environment
        )

    def complete(self, shell: str, **typed: str) -> str:
        """What a shell is told when somebody presses the tabulator."""
        environment = {**self.environment, "_MAINSTEM_COMPLETE": f"complete_{shell}", **typed}
        ran = subprocess.run(
            [sys.executable, "-m", "mainstem.cli"], capture_output=True, text=True, env=environment, timeout=PATIENCE_S
        )
        assert ran.stderr == ""
        return ran.stdout

    def lines(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self.run(*words).splitlines()]

    def at_terminal(self, *words: str, types: str = "") -> tuple[int, str]:
        """At a pseudo-terminal: the exit status, and what stands on the screen."""
        child, terminal = pty.fork()
        if not child:
            os.execve(sys.executable, [sys.executable, "-m", "mainstem.cli", *words], self.environment)
        if types:
            os.write(terminal, types.encode())
        seen = b""
        while True:
            try:
                data = os.read(terminal, 1 << 16)
            except OSError:
                break
            if not data:
                break
            seen += data
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen.decode()


@contextlib.contextmanager
def serving(home: Path) -> Iterator[tuple[Shell, dict[str, list[str]]]]:
    """A broker that listens for HTTP, Kafka and AMQP, and its addresses."""
    options = [word for name in ("kafka", "amqp") for word in ("--listen", f"{name}=127.0.0.1:0")]
    with running(home / "data", "--listen", ANY_PORT, *options) as program:
        addresses = program.wait_ready()
        yield Shell(addresses["http"][0], home), addresses
