"""What all STOMP connections of a broker share."""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from mainstem.broker.broker import Broker
from mainstem.broker.dialect import Dialect
from mainstem.protocols.stomp.session.settings import StompSettings

NAME = "stomp"
QUEUES_DIALECT = "amqp"
"""Messages and queues of STOMP have the form that the dialect of this protocol gives them: both worlds use the same ones."""

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
"""Runs a coroutine to its end, on the broker's thread."""


class Meter(Protocol):
    """Counts operations of one kind."""

    requests: int


class Node:
    """The broker, the settings, and the ways to it."""

    def __init__(
        self,
        broker: Broker,
        settings: StompSettings,
        password: str,
        version: str,
        spawn: Spawn,
        meter: Callable[[str], Meter],
        *,
        is_machine: Callable[[str], bool] = lambda host: False,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        dialect = broker.dialects.get(QUEUES_DIALECT)
        assert dialect is not None, "the dialect of queues is introduced before anybody connects"
        self.broker = broker
        self.settings = settings
        self.dialect: Dialect = dialect
        self.default_password = password
        self.server = f"Mainstem/{version}"
        self.spawn = spawn
        self._meter = meter
        self._meters: dict[str, Meter] = {}
        self.is_machine = is_machine
        """Whether a name is one of this machine, and not of a virtual host."""
        self._random = random

    def count(self, command: str, number: int = 1) -> None:
        """Count frames of a known command."""
        meter = self._meters.get(command)
        if meter is None:
            meter = self._meters[command] = self._meter(command)
        meter.requests += number

    def new_name(self, prefix: str) -> str:
        """A name that nobody can guess."""
        return prefix + urlsafe_b64encode(self._random(16)).rstrip(b"=").decode()
