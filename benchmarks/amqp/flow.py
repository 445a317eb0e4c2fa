"""Publish and consume together: persistent, confirmed, acknowledged; ours beside RabbitMQ's classic queues."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.amqp.brokers import installed, rabbitmq
from benchmarks.kafka.brokers import Running, mainstem
from benchmarks.kafka.clients import CannotBuild
from benchmarks.report import Figure
from mainstem import compiled

SOURCE = Path(__file__).parents[1] / "clients" / "amqp_load.c"
WINDOW = 2_000
"""Messages that may wait for their confirm."""
PREFETCH = 1_000
WARM_MESSAGES = 20_000
RATIO_MIN, COMPILED_RATIO_MIN = 3.0, 10.0
CPU_US_MAX, COMPILED_CPU_US_MAX = 12.0, 4.0
LATENCY_MESSAGES = 3_000


class Flow(NamedTuple):
    """What one run came to."""

    per_second: float
    cpu_us: float


@functools.cache
def _built() -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        raise CannotBuild("there is no C compiler (cc)")
    target = str(Path(tempfile.mkdtemp(prefix="mainstem-load-")) / "amqp_load")
    ended = subprocess.run([compiler, "-O2", "-w", str(SOURCE), "-o", target], capture_output=True, check=False)
    if ended.returncode:
        raise CannotBuild("amqp_load.c does not build")
    return target


def _client(what: str, broker: Running, queue: str, size: int, count: int, window: int) -> subprocess.Popen[str]:
    command = [_built(), what, str(broker.port), queue, "classic", str(size), str(count), str(window)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _rate(client: subprocess.Popen[str]) -> float:
    text = client.communicate()[0]
    found = re.search(r"(\d+) msg/s", text)
    assert client.returncode == 0, f"{client.args}: {text}"
    assert found is not None, text
    return float(found[1])


def publish(broker: Running, queue: str, size: int, count: int) -> float:
    """Messages a second to a queue that nobody reads, confirmed."""
    return _rate(_client("pub", broker, queue, size, count, WINDOW))


def consume(broker: Running, queue: str, size: int, count: int) -> float:
    """Messages a second from a queue that holds them, acknowledged."""
    return _rate(_client("con", broker, queue, size, count, PREFETCH))


def flow(broker: Running, queue: str, size: int, count: int) -> Flow:
    """Both ends at once; the slower one counts."""
    before = broker.cpu_seconds()
    consumer = _client("con", broker, queue, size, count, PREFETCH)
    publisher = _client("pub", broker, queue, size, count, WINDOW)
    rate = min(_rate(publisher), _rate(consumer))
    return Flow(rate, (broker.cpu_seconds() - before) / count * 1e6)


def _measure(broker: Running, size: int, count: int) -> Flow:
    flow(broker, "warm", size, WARM_MESSAGES)
    return flow(broker, "load", size, count)


async def amqp_flow(parent: str | None, messages: int) -> list[Figure]:
    """Messages a second, and what one costs the broker."""
    program = installed()
    if program is None:
        print("RabbitMQ is not installed (Debian: rabbitmq-server): no figure to compare with", file=sys.stderr)
    ratio_min = COMPILED_RATIO_MIN if compiled.in_use else RATIO_MIN
    cpu_us_max = COMPILED_CPU_US_MAX if compiled.in_use else CPU_US_MAX
    figures = []
    for size in (100, 1024):
        base: Flow | None = None
        if program is not None:
            with rabbitmq(parent, program) as theirs:
                base = _measure(theirs, size, messages // 4)
        with mainstem(parent, listener="amqp") as ours:
            mine = _measure(ours, size, messages)
        name = f"AMQP publish and consume, {size} B"
        figures.append(
            Figure(
                f"{name}, messages/s", mine.per_second, base and base.per_second, at_least=ratio_min if base else None
            )
        )
        figures.append(
            Figure(f"{name}, CPU us", mine.cpu_us, base and base.cpu_us, at_most=cpu_us_max if size == 100 else None)
        )
    return figures
