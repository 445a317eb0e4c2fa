"""What a server tells about itself, when nothing about it matters."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric

from mainstem.model.endpoints import Endpoints
from mainstem.model.peer import Peer
from mainstem.server.request_meters import RequestMeter


class FixedTraffic(NamedTuple):
    received_bytes: int = 3
    sent_bytes: int = 4


class FixedListener(NamedTuple):
    name: str = "http"
    address: str = "127.0.0.1:8282"
    connections: int = 2
    traffic: FixedTraffic = FixedTraffic()


class FixedConnection:
    """A client that is connected."""

    def __init__(self, number: str, name: str = "c", since_ms: int = 1, received_rate: float = 0.0) -> None:
        self.id = number
        self.protocol = number.partition("-")[0]
        self.endpoints = Endpoints("10.0.0.7", 4321, "127.0.0.1", 9092)
        self.peer = Peer()
        self.peer.name = name
        self.opened_ms = since_ms
        self.received_bytes, self.sent_bytes = 10, 20
        self.received_rate, self.sent_rate = received_rate, 0.0


class FixedOperations:
    """A server that is always the same."""

    def __init__(self, condition: str = "ready", listening: str = "127.0.0.1:8282") -> None:
        self._condition = condition
        self.meters: dict[str, RequestMeter] = {}
        self.connected = [FixedConnection("kafka-1"), FixedConnection("kafka-2")]
        self.listeners = [FixedListener(address=listening)]

    def version(self) -> str:
        return "0"

    def condition(self) -> str:
        return self._condition

    def advertised(self) -> Mapping[str, list[str]]:
        return {"http": ["127.0.0.1:8282"]}

    def data_directory(self) -> str:
        return "/nowhere"

    def storage(self) -> Mapping[str, float]:
        return {"logs": 1.0}

    def request_counts(self) -> Mapping[str, float]:
        return {"requests.http": float(sum(meter.requests for meter in self.meters.values()))}

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> RequestMeter:
        return self.meters.setdefault(operation, RequestMeter(untimed))

    def connections(self) -> list[FixedConnection]:
        return self.connected

    def end_connection(self, number: str) -> bool:
        left = [connection for connection in self.connected if connection.id != number]
        was_there, self.connected = len(left) < len(self.connected), left
        return was_there

    def measure(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("metric", "A number.", value=1)
