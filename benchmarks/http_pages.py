"""What pages of the HTTP API cost the broker among many topics and records, and what a command costs that asks nothing."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.kafka.brokers import Running, mainstem_with_http
from benchmarks.kafka.clients import create_topics, librdkafka
from benchmarks.report import Figure

TOPICS = 10_000
RECORD_BYTES = 100
LINGER_MS = 5
PARTITIONS = 16
SETTLED_S = 3.0
TURNS = 20
PAGE_MS_MAX = 20
TIME_MS_MAX = 100
LIVE_MS_MAX = 1
HELP_S_MAX = 0.25
PAGES = {
    "topics, first page": "/v1/topics?limit=50",
    "topics, by bytes": "/v1/topics?limit=50&sort=bytes",
    "topics, by records": "/v1/topics?limit=50&sort=records",
    "topics, search": "/v1/topics?limit=50&search=99",
    "one topic": "/v1/topics/load",
    "consumers of a topic": "/v1/topics/load/consumers",
    "records, newest 50": "/v1/topics/load/records?newest=50",
    "records, by offset": "/v1/topics/load/records?partition=3&offset=1000&limit=50",
    "groups": "/v1/groups",
    "queues": "/v1/queues",
    "connections": "/v1/connections",
    "alarms": "/v1/alarms",
}


async def http_pages(parent: str | None, records: int) -> list[Figure]:
    """CPU of the broker for each page, in milliseconds."""
    with mainstem_with_http(parent) as broker:
        create_topics(broker, {"load": PARTITIONS} | {f"topic-{number:05}": 1 for number in range(TOPICS)})
        began_ms = time.time_ns() // 1_000_000
        librdkafka("produce", broker.address, "load", PARTITIONS, RECORD_BYTES, records, LINGER_MS)
        middle_ms = (began_ms + time.time_ns() // 1_000_000) // 2
        await asyncio.sleep(SETTLED_S)  # files that are merged just now would count as pages
        ask = _asker(broker)
        figures = [
            Figure(f"{name}, ms of CPU", _milliseconds(broker, ask, path), at_most=PAGE_MS_MAX)
            for name, path in PAGES.items()
        ]
        by_time = f"/v1/topics/load/records?partition=3&time_ms={middle_ms}&limit=1"
        figures.append(Figure("records, by time, ms of CPU", _milliseconds(broker, ask, by_time), at_most=TIME_MS_MAX))
        last = json.loads(ask("/v1/live"))["sequence"]
        live = _milliseconds(broker, ask, f"/v1/live?after={last}")
        figures.append(Figure("live numbers since the last, ms of CPU", live, at_most=LIVE_MS_MAX))
        figures.append(Figure("metrics, ms of CPU", _milliseconds(broker, ask, "/metrics"), at_most=PAGE_MS_MAX))
    return [*figures, Figure("mainstem --help, seconds of CPU", _help_seconds(), at_most=HELP_S_MAX)]


def _asker(broker: Running) -> Callable[[str], bytes]:
    host, _, port = broker.http_address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)

    def ask(path: str) -> bytes:
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, (path, answer.status, content)
        return content

    return ask


def _milliseconds(broker: Running, ask: Callable[[str], bytes], path: str) -> float:
    ask(path)
    before = broker.cpu_seconds()
    for _ in range(TURNS):
        ask(path)
    return (broker.cpu_seconds() - before) / TURNS * 1000


def _help_seconds() -> float:
    command = [sys.executable, "-m", "mainstem.cli", "--help"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(TURNS):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / TURNS
