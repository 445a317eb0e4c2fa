"""What a server tells about itself, when nothing about it matters."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric

from mainstem.server.request_meters import RequestMeter


class FixedTraffic(NamedTuple):
    received_bytes: int = 3
    sent_bytes: int = 4


class FixedListener(NamedTuple):
    name: str = "http"
    address: str = "127.0.0.1:8282"
    connections: int = 2
    traffic: FixedTraffic = FixedTraffic()


class FixedOperations:
    """A server that is always the same."""

    def __init__(self, condition: str = "ready", listening: str = "127.0.0.1:8282") -> None:
        self._condition = condition
        self.meters: dict[str, RequestMeter] = {}
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

    def measure(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("metric", "A number.", value=1)
