"""RabbitMQ, where it is installed (Debian: rabbitmq-server), as a process of ours on an empty directory."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kafka.brokers import Running
from benchmarks.load import scratch

INSTALLED = Path("/usr/lib/rabbitmq/lib")
START_SECONDS_MAX = 60
END_SECONDS_MAX = 30


def installed() -> Path | None:
    """The program that starts it; None where there is none."""
    found = sorted(INSTALLED.glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return found[-1] if found else None


@contextlib.contextmanager
def rabbitmq(parent: str | None, program: Path) -> Iterator[Running]:
    """One node, without plugins, on loopback alone."""
    with scratch(parent) as directory:
        port, internal = _free_port(), _free_port()
        environment = {
            **os.environ,
            "HOME": directory,
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(internal),
            "RABBITMQ_MNESIA_BASE": f"{directory}/mnesia",
            "RABBITMQ_LOG_BASE": f"{directory}/log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{directory}/plugins",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(_free_port()),
        }
        # A session of its own: it starts helpers that would stay behind.
        process = subprocess.Popen(
            [str(program)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            _wait_listening(port)
            yield Running(process, f"127.0.0.1:{port}")
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS_MAX)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _end_helpers(environment["ERL_EPMD_PORT"])


def _wait_listening(port: int) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def _end_helpers(port: str) -> None:
    """Erlang's name server has left the group; it listens on a port that only this run uses."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            is_ours = f"ERL_EPMD_PORT={port}".encode() in entry.read_bytes().split(b"\0")
            if is_ours and b"epmd" in (entry.parent / "cmdline").read_bytes():
                os.kill(int(entry.parent.name), signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
