"""What an operator asks: is it alive, does it serve, how is it doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from mainstem.protocols.http.codec import Request, Response

OK = 200
UNAVAILABLE = 503


class Operations(Protocol):
    """What the server tells about itself."""

    def version(self) -> str:
        """Of this program."""

    def condition(self) -> str:
        """`ready`, or why not: `starting`, `draining`, `failed`."""

    def advertised(self) -> Mapping[str, list[str]]:
        """The addresses clients are told, by listener name."""

    def metrics(self) -> tuple[bytes, str]:
        """Measurements in the Prometheus text format, and its content type."""


class OperationsHandlers:
    """GET /health, /ready and /metrics."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def health(self, request: Request) -> Response:
        """The process is alive: that it answers is the answer."""
        return _json(OK, {"status": "alive", "version": self._operations.version()})

    def ready(self, request: Request) -> Response:
        """Whether to send clients here."""
        condition = self._operations.condition()
        if condition != "ready":
            return _json(UNAVAILABLE, {"status": condition})
        return _json(OK, {"status": condition, "advertised": self._operations.advertised()})

    def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        text, content_type = self._operations.metrics()
        return Response(OK, text, content_type)


def _json(status: int, value: object) -> Response:
    return Response(status, msgspec.json.encode(value) + b"\n", headers=(("cache-control", "no-store"),))
