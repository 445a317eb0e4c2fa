"""A broker of its own for the demonstration: free ports, a directory that goes away."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PATIENCE_S = 30


@contextlib.contextmanager
def running_broker(data_dir: Path) -> Iterator[dict[str, str]]:
    """Its addresses by the names of their protocols."""
    command = [sys.executable, "-m", "mainstem.cli", "serve", "--data-dir", str(data_dir)]
    for name in _listeners():
        command += ["--listen", f"{name}=127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
        try:
            assert broker.stdout is not None
            line = broker.stdout.readline()
            if not line.startswith("ready"):
                raise SystemExit("The broker did not start; `make serve` says why.")
            yield dict(re.findall(r"(\w+)=(\S+)", line))
        finally:
            broker.terminate()
            broker.wait(PATIENCE_S)


def _listeners() -> list[str]:
    command = [sys.executable, "-m", "mainstem.cli", "config", "show", "--json"]
    shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [entry["key"].removeprefix("listen.") for entry in shown if entry["key"].startswith("listen.")]
