"""A request of a cold API, as its handler meets it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeAlias

from mainstem.protocols.kafka.session.machine import ConnectionState, Meter, Reply
from mainstem.wire.kafka.schema import Versions


class Call(NamedTuple):
    """One request of a cold API."""

    body: Any
    version: int
    client_id: str
    reply: Reply
    connection: ConnectionState


Body: TypeAlias = dict[str, Any]
Handler: TypeAlias = "Callable[[Call], Body | Coroutine[Any, Any, Body]]"
"""Answers the body of the response, at once or later."""

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
"""Runs a coroutine to its end, on the broker's thread."""


MeterOf: TypeAlias = Callable[[str, int], Meter]
"""What counts the requests of an API, by its name and by how many are not timed between two that are."""


class Served(NamedTuple):
    """An API and the versions that are served of it."""

    handler: Handler
    first: int
    last: int

    @property
    def versions(self) -> Versions:
        """As a range."""
        return Versions(self.first, self.last)
