"""Runs commands against a broker, in a pipe or at a terminal."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.serving.program import PATIENCE_S


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
