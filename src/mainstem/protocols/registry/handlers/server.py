"""What the registry says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mainstem.broker.broker import Broker
from mainstem.protocols.registry.handlers.paths import Call, Path

REGISTRY = "schema-registry"


class Address(Protocol):
    """Where clients connect."""

    @property
    def host(self) -> str:
        """The machine."""


class Listening(Protocol):
    """A listener."""

    @property
    def name(self) -> str:
        """Of its protocol."""

    @property
    def address(self) -> Address:
        """Where."""


class Meter(Protocol):
    """Counts requests of one kind."""

    requests: int


class Operations(Protocol):
    """What the server tells about itself."""

    @property
    def listeners(self) -> Sequence[Listening]:
        """Where clients connect."""

    def version(self) -> str:
        """Of this program."""

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> Meter:
        """Where requests of one kind are counted."""


class ServerPaths:
    """/, /contexts and /v1/metadata."""

    def __init__(self, broker: Broker, operations: Operations) -> None:
        self._broker = broker
        self._operations = operations

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/", lambda call: {}),
            Path("POST", "/", lambda call: {}),
            Path("GET", "/contexts", self.list_contexts),
            Path("GET", "/v1/metadata/id", self.get_id),
            Path("GET", "/v1/metadata/version", self.get_version),
        ]

    def list_contexts(self, call: Call) -> list[str]:
        """Those in which anything was registered."""
        return call.page(self._broker.schemas.table.contexts(), 10_000)

    def get_id(self, call: Call) -> dict[str, Any]:
        """Which cluster this is."""
        clusters = {"kafka-cluster": self._broker.cluster_id, "schema-registry-cluster": REGISTRY}
        return {"scope": {"path": [], "clusters": clusters}, "id": ""}

    def get_version(self, call: Call) -> dict[str, str]:
        """Of this program."""
        return {"version": self._operations.version(), "commitId": ""}
