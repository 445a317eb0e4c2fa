"""What an operator asks: is it alive, does it serve, which one is it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from mainstem.protocols.http.codec import Response, encode_json
from mainstem.protocols.http.handlers.routes import Call, Meter, Route
from mainstem.protocols.http.mapping.clients.connections import Connected
from mainstem.protocols.http.mapping.documents import Health, Readiness

if TYPE_CHECKING:
    from prometheus_client.core import Metric

OK = 200
UNAVAILABLE = 503


class Traffic(Protocol):
    """What went through a listener."""

    @property
    def received_bytes(self) -> int:
        """From clients."""

    @property
    def sent_bytes(self) -> int:
        """To clients."""


class Listening(Protocol):
    """A listening socket."""

    @property
    def name(self) -> str:
        """Of the protocol."""

    @property
    def address(self) -> object:
        """Where, as text."""

    @property
    def connections(self) -> int:
        """How many are open."""

    @property
    def traffic(self) -> Traffic:
        """What went through it."""


class Operations(Protocol):
    """What the server tells about itself."""

    @property
    def listeners(self) -> Sequence[Listening]:
        """Where clients connect."""

    def version(self) -> str:
        """Of this program."""

    def condition(self) -> str:
        """`ready`, or why not: `starting`, `draining`, `failed`."""

    def advertised(self) -> Mapping[str, list[str]]:
        """The addresses clients are told, by listener name."""

    def data_directory(self) -> str:
        """Where the log is, and tables are unless they say otherwise."""

    def storage(self) -> Mapping[str, float]:
        """Measurements of the storage engine, by name."""

    def request_counts(self) -> Mapping[str, float]:
        """Requests since the start, as `requests.PROTOCOL`."""

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> Meter:
        """Where requests of one kind are counted."""

    def connections(self) -> Sequence[Connected]:
        """All that serve a client, of every protocol."""

    def end_connection(self, number: str) -> bool:
        """Have one finish what is in flight, and close it; whether it is there."""

    def measure(self) -> Iterable[Metric]:
        """All measurements that the server has of itself."""


class OperationsHandlers:
    """GET /health and /ready: answered whatever else is not."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def routes(self) -> list[Route]:
        """What is served here."""
        return [
            Route("GET", "/health", self.health, {OK: Health}),
            Route("GET", "/ready", self.ready, {OK: Readiness, UNAVAILABLE: Readiness}),
        ]

    def health(self, call: Call) -> Health:
        """The process is alive: that it answers is the answer."""
        return Health("alive", self._operations.version())

    def ready(self, call: Call) -> Readiness | Response:
        """Whether to send clients here."""
        condition = self._operations.condition()
        if condition != "ready":
            return encode_json(UNAVAILABLE, Readiness(condition))
        return Readiness(condition, dict(self._operations.advertised()))
