"""Two brokers to measure: ours, and a bare prototype of the hot path; and what each has cost."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import scratch

PROTOTYPE = Path(__file__).parents[1] / "bare" / "kafka_broker.py"
PROTOTYPE_CACHE_MB = 256
IDLE_SECONDS = 0.5
PREPARED_FILES = 20
"""Where nothing is merged no file of the log comes back to be used again, so as many as a load needs are there before it."""
MERGE_IDLE = {
    "MAINSTEM_STORAGE_MERGE_FILES_MIN": "1000000",
    "MAINSTEM_STORAGE_UNMERGED_FILES_MAX": "1000000",
    "MAINSTEM_STORAGE_WAL_SPARE_FILES": "1",
}
TICKS = os.sysconf("SC_CLK_TCK")


class Running(NamedTuple):
    """A broker that runs."""

    process: subprocess.Popen[str]
    address: str
    http_address: str = ""
    """Where it was asked to listen there, too."""

    @property
    def host(self) -> str:
        """Where it listens."""
        return self.address.rsplit(":", 1)[0]

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.address.rsplit(":", 1)[1])

    def cpu_seconds(self) -> float:
        """User and system time of it and of the children that it still has or has waited for."""
        return sum(_cpu_seconds(pid) for pid in _family(self.process.pid))

    def resident_kb(self) -> int:
        """Memory in use."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found is not None
        return int(found[1])


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def _family(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return [pid]


@contextlib.contextmanager
def mainstem(
    parent: str | None, *, merging: bool = True, listener: str = "kafka", python: str = sys.executable
) -> Iterator[Running]:
    """Our broker on an empty directory, synced; `python` is the interpreter of the checkout to run."""
    with scratch(parent) as directory:
        if merging:
            with _served(directory, {}, listener, python) as running:
                yield running
        else:
            with _served(directory, {"MAINSTEM_STORAGE_WAL_SPARE_FILES": str(PREPARED_FILES)}, listener, python):
                pass
            with _served(directory, MERGE_IDLE, listener, python) as running:
                yield running


@contextlib.contextmanager
def mainstem_with_http(parent: str | None) -> Iterator[Running]:
    """Our broker with its Kafka and HTTP ports, on an empty directory."""
    with scratch(parent) as directory, _served(directory, {}, "kafka", sys.executable, also="http") as running:
        yield running


@contextlib.contextmanager
def _served(directory: str, settings: dict[str, str], listener: str, python: str, also: str = "") -> Iterator[Running]:
    command = [python, "-m", "mainstem.cli", "serve", "--data-dir", f"{directory}/data"]
    for name in _listeners(python):
        command += ["--listen", f"{name}=127.0.0.1:0" if name in (listener, also) else f"{name}=off"]
    with _process(command, dict(os.environ) | settings) as (process, line):
        addresses = dict(re.findall(r"(\S+)=(\S+)", line))
        assert listener in addresses, f"the broker did not start: {line!r}"
        running = Running(process, addresses[listener], addresses.get(also, ""))
        _wait_until_idle(running)
        yield running


def _wait_until_idle(running: Running) -> None:
    """Files for the log are prepared after the start; that is not part of any load."""
    before = -1.0
    while (now := running.cpu_seconds()) != before:
        before = now
        time.sleep(IDLE_SECONDS)


@functools.cache
def _listeners(python: str) -> list[str]:
    """Those of the checkout to run: another one may know fewer."""
    question = "from mainstem.server.registry import REGISTERED; print(*REGISTERED)"
    return subprocess.run([python, "-c", question], check=True, stdout=subprocess.PIPE, text=True).stdout.split()


@contextlib.contextmanager
def prototype(parent: str | None, partitions: int) -> Iterator[Running]:
    """The bare one, which makes every topic with `partitions` partitions, synced too."""
    with scratch(parent) as directory:
        port = _free_port()
        command = [sys.executable, str(PROTOTYPE), str(port), str(partitions), "1", str(PROTOTYPE_CACHE_MB)]
        command += ["uv", f"{directory}/wal", "1"]
        with _process(command, dict(os.environ)) as (process, _):
            yield Running(process, f"127.0.0.1:{port}")


@contextlib.contextmanager
def _process(command: list[str], environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
