"""`mainstem bench`: load for a while, with rates and latencies."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from mainstem.cli.load.latencies import Latencies
from mainstem.cli.load.loads import HttpLoad, KafkaLoad, Load
from mainstem.cli.terminal.broker import Broker, Refused, connect, note, path_of
from mainstem.cli.terminal.contexts import Context, choose
from mainstem.cli.terminal.exits import AWAY, FAILED, WRONG_USE, fail, status_of
from mainstem.cli.terminal.names import names_of
from mainstem.cli.terminal.options import Address, ContextName, Output
from mainstem.cli.terminal.output import write_one
from mainstem.cli.terminal.times import parse_length
from mainstem.model.errors import MainstemError

PERCENTILES = (50, 90, 99, 99.9)
DURATION_MS_MAX = 3_600_000
REQUEST_BYTES_MAX = 64 << 20
PROTOCOLS = ("http", "kafka", "amqp")


class _Worker(threading.Thread):
    """Works, request after request, until the time is over."""

    def __init__(self, load: Load, until: float) -> None:
        super().__init__(daemon=True)
        self.latencies = Latencies()
        self.records = 0
        self.failure: BaseException | None = None
        self._load = load
        self._until = until

    def run(self) -> None:
        """Until the time is over, or a request fails."""
        try:
            while (begun := time.perf_counter()) < self._until:
                self.records += self._load.work()
                self.latencies.add(time.perf_counter() - begun)
        except (Refused, MainstemError, OSError, typer.Exit) as error:
            self.failure = error
        finally:
            self._load.close()


def bench(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="It is published to, and stays.", autocompletion=names_of("topics"))
    ],
    protocol: Annotated[
        str, typer.Option("--protocol", "-p", metavar="NAME", help="http, kafka, or amqp, which needs a queue.")
    ] = "http",
    duration: Annotated[str, typer.Option("--duration", metavar="TIME", help="How long.")] = "10s",
    clients: Annotated[int, typer.Option("--clients", metavar="N", min=1, max=256, help="At the same time.")] = 4,
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, max=10_000, help="Records of a request.")] = 100,
    size: Annotated[int, typer.Option("--size", metavar="BYTES", min=0, max=1 << 20, help="Of a value.")] = 100,
    read: Annotated[bool, typer.Option("--read", help="Read instead of publishing; not over AMQP.")] = False,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
) -> None:
    """Put load on a broker: records in a second, and latencies of requests in ms."""
    seconds = min(parse_length(duration), DURATION_MS_MAX) / 1000
    if protocol not in PROTOCOLS or (read and protocol == "amqp"):
        fail([f"--protocol {protocol}: one of {', '.join(PROTOCOLS)}, to read from http or kafka"], WRONG_USE)
    if batch * size > REQUEST_BYTES_MAX:
        fail([f"--batch times --size: at most {REQUEST_BYTES_MAX:,} bytes"], WRONG_USE)
    broker = connect(address, context)
    partitions = broker.get(path_of("v1", "topics", topic))["partition_count"]
    make = _maker(protocol, broker, choose(address, context), topic, partitions, batch, size, read)
    try:
        loads = [make(number) for number in range(clients)]
    except Refused as refusal:
        fail([f"{str(refusal).rstrip('.')}."], FAILED)
    except OSError as error:
        fail([f"the broker does not answer over {protocol}: {error}."], AWAY)
    begun = time.perf_counter()
    workers = [_Worker(load, begun + seconds) for load in loads]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(min(1.0, seconds / 4))
        if sys.stderr.isatty():
            note(f"{sum(worker.records for worker in workers):,} records")
    elapsed = time.perf_counter() - begun
    for worker in workers:
        _raise(worker.failure)
    write_one(_summary(workers, protocol, elapsed), output, name="requests")


def _maker(
    protocol: str, broker: Broker, chosen: Context, topic: str, partitions: int, batch: int, size: int, read: bool
) -> Callable[[int], Load]:
    """What opens the client of this number."""
    if protocol == "http":
        return lambda number: HttpLoad(Broker(chosen), topic, batch, size, reads=read)
    found = broker.get("/ready")["advertised"].get(protocol)
    if not found:
        fail([f"the broker does not listen for {protocol}."], FAILED)
    if protocol == "kafka":
        return lambda number: KafkaLoad(found[0], topic, number % partitions, batch, size, reads=read)
    from mainstem.cli.load.amqp_load import AmqpLoad

    user, password = (chosen.user, chosen.password()) if chosen.user else ("guest", "guest")
    return lambda number: AmqpLoad(found[0], topic, batch, size, user, password)


def _raise(failure: BaseException | None) -> None:
    """End the command for what a client met."""
    if isinstance(failure, Refused):
        fail([f"{str(failure).rstrip('.')}."], status_of(failure.status))
    if isinstance(failure, MainstemError | OSError):
        fail([f"a client was refused or cut off: {failure}"], FAILED)
    if failure is not None:
        raise failure


def _summary(workers: list[_Worker], protocol: str, elapsed: float) -> dict[str, Any]:
    latencies = Latencies()
    for worker in workers:
        latencies.merge(worker.latencies)
    records = sum(worker.records for worker in workers)
    summary: dict[str, Any] = {
        "protocol": protocol,
        "requests": latencies.count,
        "records": records,
        "seconds": round(elapsed, 3),
        "records_per_second": round(records / elapsed, 1),
    }
    for percent in PERCENTILES:
        found = latencies.percentile(percent)
        summary[f"p{percent:g}_ms"] = None if found is None else round(found * 1000, 3)
    return summary
