"""What all connections of MQTT have in common: who may come in, the broker, and `$SYS`."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.protocols.mqtt.mapping.messages import HeaderBook
from mainstem.protocols.mqtt.session.settings import MqttSettings

Spawn = Callable[[Coroutine[Any, Any, None]], object]
DEFAULT_HOST = "/"


class Node:
    """One for each listener."""

    def __init__(
        self,
        broker: Broker,
        settings: MqttSettings,
        listener: str,
        version: str,
        spawn: Spawn,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.broker = broker
        self.settings = settings
        self.listener = listener
        """Its name: by that the door knows how its settings let clients in."""
        self.version = version
        self.spawn = spawn
        self.book = HeaderBook(broker.envelopes.mark_names)
        self._random = random
        self._begun = broker.clock.monotonic()

    @property
    def uptime_s(self) -> float:
        """Since the listener was made."""
        return self.broker.clock.monotonic() - self._begun

    def new_client_id(self) -> str:
        """For a client that has none."""
        return f"auto-{self._random(12).hex()}"

    def split_user(self, user: str | None) -> tuple[str, str | None]:
        """`HOST:USER` names a virtual host, as in RabbitMQ; answers the namespace and the user."""
        if user is not None and ":" in user:
            host, _, name = user.rpartition(":")
            namespace = DEFAULT_NAMESPACE if host == DEFAULT_HOST else host
            if self.broker.namespaces.find(namespace) is not None:
                return namespace, name
        return DEFAULT_NAMESPACE, user
