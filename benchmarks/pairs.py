"""`make bench-pairs BASE=DIRECTORY`: broker CPU per message of this checkout beside that of another one.

    python -m benchmarks.pairs DIRECTORY [NAME ...] [--pairs N] [--count N]

Both checkouts must be set up (`make setup`). A pair is one run of each, one right after the other, in turns first and second;
a figure is the median of the ratios of all pairs. Nothing else should run meanwhile. Exit code 1 when a ratio is above 1.05.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.amqp import flow
from benchmarks.kafka.brokers import Running, mainstem
from benchmarks.kafka.clients import create_topics, librdkafka, produce_request, send_all
from benchmarks.kafka.produce import LINGER_MS
from benchmarks.kafka.share_group import take_all

RATIO_MAX = 1.05
PARTITIONS = 16
WARM_SHARE = 10
REQUESTS_IN_FLIGHT = 256

Load = Callable[[Running, int], int]
"""Puts a count of messages through a broker that is warm; answers the count that it was."""


def _produce(size: int) -> Load:
    def load(broker: Running, count: int) -> int:
        librdkafka("produce", broker.address, "load", PARTITIONS, size, count, LINGER_MS)
        return count

    return load


def _fetch(broker: Running, count: int) -> int:
    librdkafka("consume", broker.address, "load", PARTITIONS, 100, count)
    return count


def _share(broker: Running, count: int) -> int:
    return take_all(broker, "share", "load", count // 2)


def _single_records(broker: Running, count: int) -> int:
    count //= 20
    send_all(broker, [produce_request([("load", 0)], 1, 100, number) for number in range(count)], REQUESTS_IN_FLIGHT)
    return count


def _amqp_flow(size: int) -> Load:
    def load(broker: Running, count: int) -> int:
        count //= 5
        flow.flow(broker, f"load-{count}", size, count)
        return count

    return load


LOADS: dict[str, tuple[str, Load]] = {
    "kafka-produce-100": ("kafka", _produce(100)),
    "kafka-produce-1024": ("kafka", _produce(1024)),
    "kafka-single-records": ("kafka", _single_records),
    "kafka-fetch": ("kafka", _fetch),
    "kafka-share-group": ("kafka", _share),
    "amqp-flow-100": ("amqp", _amqp_flow(100)),
    "amqp-flow-1024": ("amqp", _amqp_flow(1024)),
}


def _microseconds(python: str, name: str, count: int) -> float:
    listener, load = LOADS[name]
    with mainstem(None, merging=False, listener=listener, python=python) as broker:
        if listener == "kafka":
            create_topics(broker, {"load": PARTITIONS})
        if load in (_fetch, _share):
            _produce(100)(broker, count)
        else:
            load(broker, count // WARM_SHARE)
        before = broker.cpu_seconds()
        done = load(broker, count)
        return (broker.cpu_seconds() - before) / done * 1e6


def _ratio(name: str, base: str, pairs: int, count: int) -> float:
    taken: list[tuple[float, float]] = []
    for number in range(pairs):
        order = (base, sys.executable) if number % 2 == 0 else (sys.executable, base)
        cost = {python: _microseconds(python, name, count) for python in order}
        taken.append((cost[base], cost[sys.executable]))
    ratio = statistics.median(ours / theirs for theirs, ours in taken)
    each = " ".join(f"{theirs:.2f}/{ours:.2f}" for theirs, ours in taken)
    print(f"| {name} | {each} | {ratio:.3f} | {'yes' if ratio <= RATIO_MAX else 'NO'} |", flush=True)
    return ratio


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs")
    parser.add_argument("base", type=Path, help="the other checkout")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(LOADS)}; all by default")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--count", type=int, default=2_000_000, help="messages of 100 bytes that Kafka produces a run")
    options = parser.parse_args()
    unknown = set(options.names) - set(LOADS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    base = options.base / ".venv" / "bin" / "python"
    if not base.exists():
        parser.error(f"{options.base} is not set up: run make setup there")
    print("| load | CPU us a message, base/here, pair by pair | median of ratios | <= 1.05 |\n|---|---|---:|---|")
    ratios = [_ratio(name, str(base.absolute()), options.pairs, options.count) for name in options.names or LOADS]
    return int(any(ratio > RATIO_MAX for ratio in ratios))


if __name__ == "__main__":
    sys.exit(main())
