"""`make bench`: every measurement, or those named, one after the other, each in a process of its own.

    python -m benchmarks [NAME ...] [--quick] [--directory DIR] [--report FILE]

Nothing else should run meanwhile. Exit code 1 when a figure is not as wanted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.amqp.flow import amqp_flow
from benchmarks.amqp.properties import amqp_properties
from benchmarks.amqp.scale import amqp_backlog, amqp_queues
from benchmarks.append import large_groups, single_records
from benchmarks.catch_up import catch_up
from benchmarks.http_pages import http_pages
from benchmarks.idle_memory import idle_memory
from benchmarks.kafka.clients import CannotBuild
from benchmarks.kafka.produce import kafka_partitions, kafka_produce, kafka_single_records, kafka_sustained
from benchmarks.kafka.serving import kafka_connections, kafka_latency, kafka_slow_readers
from benchmarks.load import run
from benchmarks.mqtt.flow import mqtt_flow, mqtt_sessions
from benchmarks.overload.scenarios import overload
from benchmarks.report import HEAD, Figure, write_report
from benchmarks.restart import restart
from benchmarks.schedules import schedules
from benchmarks.subscriptions import subscriptions
from benchmarks.sustained import sustained
from benchmarks.tls import tls

Measurement = Callable[[str | None, bool], Awaitable[list[Figure]]]

MEASUREMENTS: dict[str, Measurement] = {
    "large-groups": lambda parent, quick: large_groups(parent, 2 if quick else 5),
    "single-records": lambda parent, quick: single_records(parent, 2 if quick else 6),
    "sustained": lambda parent, quick: sustained(parent, 10 if quick else 60),
    "catch-up": lambda parent, quick: catch_up(parent, 128 if quick else 512),
    "restart": lambda parent, quick: restart(parent, 1 if quick else 10),
    "schedules": lambda parent, quick: schedules(parent, 200_000 if quick else 10_000_000),
    "idle-memory": lambda parent, quick: idle_memory(parent),
    "subscriptions": lambda parent, quick: subscriptions(parent, 10_000 if quick else 100_000),
    "tls": lambda parent, quick: tls(512 if quick else 4096, 500 if quick else 10_000),
    "http-pages": lambda parent, quick: http_pages(parent, 100_000 if quick else 10_000_000),
    "amqp-flow": lambda parent, quick: amqp_flow(parent, 100_000 if quick else 400_000),
    "amqp-properties": lambda parent, quick: amqp_properties(parent, 20_000 if quick else 100_000),
    "amqp-queues": lambda parent, quick: amqp_queues(parent, 10_000 if quick else 100_000),
    "amqp-backlog": lambda parent, quick: amqp_backlog(parent, 1_000_000 if quick else 10_000_000),
    "mqtt-flow": lambda parent, quick: mqtt_flow(parent, 500 if quick else 5_000),
    "mqtt-sessions": lambda parent, quick: mqtt_sessions(parent, 20_000 if quick else 100_000),
    "overload": lambda parent, quick: overload(parent, 0.1 if quick else 1.0),
    "kafka-produce": lambda parent, quick: kafka_produce(parent, 1 if quick else 4),
    "kafka-sustained": lambda parent, quick: kafka_sustained(parent, 10 if quick else 60),
    "kafka-partitions": lambda parent, quick: kafka_partitions(parent, 1_000 if quick else 4_000),
    "kafka-single-records": lambda parent, quick: kafka_single_records(parent, 20_000 if quick else 100_000),
    "kafka-latency": lambda parent, quick: kafka_latency(parent, 3_000 if quick else 20_000),
    "kafka-connections": lambda parent, quick: kafka_connections(parent, 1_000 if quick else 5_000),
    "kafka-slow-readers": lambda parent, quick: kafka_slow_readers(parent, 1 if quick else 4),
}


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASUREMENTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="shorter and smaller, for a first look")
    parser.add_argument("--directory", help="where to put data; default: the system's temporary directory")
    parser.add_argument("--report", type=Path, default=Path("benchmark-report.md"))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.names) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if options.child:
        measure = MEASUREMENTS[options.child]
        try:
            figures = run(lambda: measure(options.directory, options.quick))
        except CannotBuild as error:
            print(f"{options.child} is left out: {error}", file=sys.stderr)
            figures = []
        print(json.dumps([list(figure) for figure in figures]))
        return 0
    print(HEAD)
    figures = []
    for name in options.names or MEASUREMENTS:
        figures += _in_child(name, options)
    command = "make bench" + (f' ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else "")
    write_report(options.report, figures, command)
    return 1 if any(figure.met is False for figure in figures) else 0


def _in_child(name: str, options: argparse.Namespace) -> list[Figure]:
    command = [sys.executable, "-m", "benchmarks", "--child", name]
    command += ["--quick"] if options.quick else []
    command += ["--directory", options.directory] if options.directory else []
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures = [Figure(*values) for values in json.loads(output.splitlines()[-1])]
    for figure in figures:
        print(figure.row(), flush=True)
    return figures


if __name__ == "__main__":
    sys.exit(main())
