"""What a server tells about itself, when nothing about it matters."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric


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

    def measure(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("metric", "A number.", value=1)
