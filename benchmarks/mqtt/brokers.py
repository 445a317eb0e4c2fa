"""mosquitto, where it is installed (Debian: mosquitto), as a process of ours. It stores nothing and syncs nothing."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kafka.brokers import Running
from benchmarks.load import scratch

PLACES = f"{Path('/usr/sbin')}:{Path('/usr/local/sbin')}"
START_SECONDS_MAX = 20
CONFIGURATION = """
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 1000
log_type error
"""


def installed() -> str | None:
    """The program; None where there is none."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path=PLACES)


@contextlib.contextmanager
def mosquitto(parent: str | None, program: str) -> Iterator[Running]:
    """On loopback alone."""
    with scratch(parent) as directory:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        configuration = Path(directory) / "mosquitto.conf"
        configuration.write_text(CONFIGURATION.format(port=port))
        process = subprocess.Popen([program, "-c", str(configuration)], text=True)
        try:
            _wait_listening(port)
            yield Running(process, f"127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait()


def _wait_listening(port: int) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
