"""What the server knows and tells about itself: its condition, its addresses, its measurements."""

from __future__ import annotations

import enum
import socket
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from mainstem import compiled
from mainstem.server.request_meters import RequestMeter, RequestMeters
from mainstem.transport.address import Address
from mainstem.transport.turns import DELAY_BUCKETS_S, Delays

if TYPE_CHECKING:
    from mainstem.server.cluster.member import Member
    from mainstem.transport.connection import Connection
    from mainstem.transport.listener import Listener


class Condition(enum.Enum):
    """The life of a server."""

    STARTING = "starting"
    STANDBY = "standby"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


class ServerOperations:
    """One server's view of itself, for adapters that show it."""

    def __init__(self, advertise: Mapping[str, Address], data_directory: Path = Path()) -> None:
        self.state = Condition.STARTING
        self.listeners: list[Listener] = []
        self.engine: object | None = None
        self.delays = Delays()
        self.member: Member | None = None
        """Of a cluster."""
        self._advertise = advertise
        self._data_directory = str(data_directory.absolute())
        self._version = version("mainstem")
        self._process = ProcessCollector(registry=None)
        self._requests = RequestMeters()

    def version(self) -> str:
        """Of this program."""
        return self._version

    def condition(self) -> str:
        """In one word."""
        return self.state.value

    def advertised(self) -> dict[str, list[str]]:
        """What clients are told: what was set, else where we listen, else, behind a wildcard, the machine's name."""
        told: dict[str, list[str]] = {}
        for listener in self.listeners:
            address = self._advertise.get(listener.name, listener.address)
            if address.is_wildcard:
                address = Address(socket.gethostname(), address.port)
            addresses = told.setdefault(listener.name, [])
            if str(address) not in addresses:
                addresses.append(str(address))
        return told

    def node(self) -> int:
        """The number of this broker."""
        return 1 if self.member is None else self.member.number

    def brokers(self, protocol: str) -> dict[int, str]:
        """Where brokers serve a protocol or lead to the one who does, by number: this one, and the others of its cluster."""
        known = {} if self.member is None else self.member.brokers
        own = {self.node(): self.advertised()[protocol][0]}
        return {number: addresses[protocol] for number, addresses in known.items() if protocol in addresses} | own

    def data_directory(self) -> str:
        """Where the log is."""
        return self._data_directory

    def storage(self) -> dict[str, float]:
        """Measurements of the storage engine, by name."""
        measure: Callable[[], dict[str, float]] | None = getattr(self.engine, "metrics", None)
        return {} if measure is None else measure()

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> RequestMeter:
        """Where an adapter counts its requests of one kind, of which `untimed` (one-bits) go between two that are timed."""
        return self._requests.meter(protocol, operation, untimed)

    def request_counts(self) -> dict[str, float]:
        """Requests since the start, as `requests.PROTOCOL`."""
        return self._requests.counts()

    def connections(self) -> list[Connection]:
        """All that serve a client, of every protocol."""
        return [connection for listener in self.listeners for connection in listener.open_connections()]

    def end_connection(self, number: str) -> bool:
        """Have one finish what is in flight, and close it; whether it is there."""
        for listener in self.listeners:
            for connection in listener.open_connections():
                if connection.id == number:
                    listener.end(connection)
                    return True
        return False

    def measure(self) -> Iterable[Metric]:
        """All measurements, now. Read where they are kept: counting costs an addition, and no lock."""
        yield from self._process.collect()
        yield from self._listeners()
        yield from self._requests.measure()
        yield from self._engine()
        yield from self._delays()
        if self.member is not None:
            yield from self._cluster(self.member)
        info = GaugeMetricFamily("mainstem_info", "Version of the broker", labels=["version"])
        info.add_metric([self._version], 1)
        yield info
        modules = float(len(compiled.in_use))
        yield GaugeMetricFamily("mainstem_compiled_modules", "Modules that run as machine code", value=modules)
        ready = float(self.state is Condition.READY)
        yield GaugeMetricFamily("mainstem_ready", "Whether clients are served", value=ready)

    def _cluster(self, member: Member) -> Iterable[Metric]:
        is_owner = float(self.state in (Condition.READY, Condition.DRAINING))
        yield GaugeMetricFamily("mainstem_cluster_owner", "Whether this broker owns its shard", value=is_owner)
        term = 0 if member.owner is None else member.owner.epoch
        yield GaugeMetricFamily("mainstem_cluster_term", "How often the shard has changed hands", value=term)
        brokers = len(member.brokers)
        yield GaugeMetricFamily(
            "mainstem_cluster_brokers", "Brokers of the shard that were heard of lately", value=brokers
        )

    def _listeners(self) -> Iterable[Metric]:
        labels = ["listener", "address"]
        connections = GaugeMetricFamily("mainstem_connections", "Open connections", labels=labels)
        counters = {
            name: CounterMetricFamily(f"mainstem_{metric}", text, labels=labels)
            for name, metric, text in (
                ("accepted", "connections_accepted", "Connections accepted"),
                ("refused", "connections_refused", "Connections over limits.connections_max"),
                ("reclaimed", "connections_reclaimed", "Connections idle for limits.idle_timeout_ms"),
                ("failed", "connections_failed", "Connections closed for a fault of the broker"),
                ("received_bytes", "received_bytes", "Bytes received from clients"),
                ("sent_bytes", "sent_bytes", "Bytes sent to clients"),
            )
        }
        for listener in self.listeners:
            values = [listener.name, str(listener.address)]
            connections.add_metric(values, listener.connections)
            for name, counter in counters.items():
                counter.add_metric(values, getattr(listener.traffic, name))
        yield connections
        yield from counters.values()

    def _delays(self) -> Iterable[Metric]:
        delays = self.delays
        buckets, count = [], 0
        for bound, number in zip((*map(str, DELAY_BUCKETS_S), "+Inf"), delays.counts, strict=True):
            count += number
            buckets.append((bound, float(count)))
        text = "How late the event loop was with a timer while clients were served"
        yield HistogramMetricFamily("mainstem_loop_delay_seconds", text, buckets=buckets, sum_value=delays.sum_s)
        text = "The longest of these delays since the start"
        yield GaugeMetricFamily("mainstem_loop_delay_max_seconds", text, value=delays.max_s)

    def _engine(self) -> Iterable[Metric]:
        for name, value in self.storage().items():
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(f"mainstem_engine_{name}", f"Storage engine: {name.replace('_', ' ')}", value=value)
