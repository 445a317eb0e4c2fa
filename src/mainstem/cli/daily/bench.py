"""`mainstem bench`: load over HTTP for a while, with rates and latencies."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Annotated, Any

import typer

from mainstem.cli.terminal.broker import Broker, Refused, connect, note, path_of
from mainstem.cli.terminal.contexts import choose
from mainstem.cli.terminal.exits import status_of
from mainstem.cli.terminal.options import Address, ContextName, Output
from mainstem.cli.terminal.output import write_one
from mainstem.cli.terminal.times import parse_length

PERCENTILES = (50, 90, 99, 99.9)


class _Worker(threading.Thread):
    """Publishes or reads, request after request, until the time is over."""

    def __init__(self, broker: Broker, method: str, path: str, body: bytes | None, until: float) -> None:
        super().__init__(daemon=True)
        self.latencies: list[float] = []
        self.failure: BaseException | None = None
        self._broker = broker
        self._request = (method, path, body, {"content-type": "application/json"} if body else {})
        self._until = until

    def run(self) -> None:
        """Until the time is over, or a request fails."""
        try:
            while (begun := time.perf_counter()) < self._until:
                self._broker.try_send(*self._request)
                self.latencies.append(time.perf_counter() - begun)
        except (Refused, typer.Exit) as error:
            self.failure = error


def bench(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="It is published to, and stays.")],
    duration: Annotated[str, typer.Option("--duration", metavar="TIME", help="How long.")] = "10s",
    clients: Annotated[int, typer.Option("--clients", metavar="N", min=1, max=256, help="At the same time.")] = 4,
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, max=10_000, help="Records of a request.")] = 100,
    size: Annotated[int, typer.Option("--size", metavar="BYTES", min=0, max=1 << 20, help="Of a value.")] = 100,
    read: Annotated[bool, typer.Option("--read", help="Read pages instead of publishing.")] = False,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
) -> None:
    """Put load on a broker over HTTP: records in a second, and latencies of requests in ms."""
    seconds = parse_length(duration) / 1000
    chosen = choose(address, context)
    path = path_of("v1", "topics", topic, "records")
    connect(address, context).get(path_of("v1", "topics", topic))
    body = None if read else json.dumps({"records": [{"text": "v" * size} for _ in range(batch)]}).encode()
    method = "GET" if read else "POST"
    path += f"?newest={min(batch, 1_000)}" if read else ""
    begun = time.perf_counter()
    workers = [_Worker(Broker(chosen), method, path, body, begun + seconds) for _ in range(clients)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(min(1.0, seconds / 4))
        if sys.stderr.isatty():
            note(f"{sum(len(worker.latencies) for worker in workers) * batch:,} records")
    elapsed = time.perf_counter() - begun
    for worker in workers:
        if isinstance(worker.failure, Refused):
            note(f"mainstem: error: {worker.failure}")
            raise typer.Exit(status_of(worker.failure.status))
        if worker.failure is not None:
            raise worker.failure
    write_one(
        _summary([one for worker in workers for one in worker.latencies], batch, elapsed), output, name="requests"
    )


def _summary(latencies: list[float], batch: int, elapsed: float) -> dict[str, Any]:
    latencies.sort()
    summary: dict[str, Any] = {
        "requests": len(latencies),
        "records": len(latencies) * batch,
        "seconds": round(elapsed, 3),
        "records_per_second": round(len(latencies) * batch / elapsed, 1),
    }
    for percent in PERCENTILES:
        at = min(len(latencies) - 1, int(len(latencies) * percent / 100))
        summary[f"p{percent:g}_ms"] = round(latencies[at] * 1000, 3) if latencies else None
    return summary
