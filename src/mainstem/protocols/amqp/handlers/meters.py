"""How often clients have asked for what; messages are counted by the run, not one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Meter(Protocol):
    """Counts operations of one kind."""

    requests: int


class Meters:
    """Of all connections."""

    def __init__(self, meter: Callable[[str], Meter]) -> None:
        self._meter = meter
        self._methods: dict[str, Meter] = {}
        self.publish = meter("basic.publish")
        self.deliver = meter("basic.deliver")
        """Also what answers no request."""
        self.acknowledge = meter("basic.ack")
        self.reject = meter("basic.reject")
        """And basic.nack; both by the number of messages."""

    def count(self, method: str) -> None:
        """One method. There are as many names as AMQP has methods."""
        known = self._methods.get(method)
        if known is None:
            known = self._methods[method] = self._meter(method)
        known.requests += 1
