"""What the server registers for MQTT: over TCP, and over WebSocket."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

from mainstem.broker.broker import Broker
from mainstem.broker.users.door import Entrance
from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.protocols.mqtt.handlers.connection import MqttConnection
from mainstem.protocols.mqtt.handlers.node import Node, Spawn
from mainstem.protocols.mqtt.handlers.system_topics import publish_in_intervals
from mainstem.protocols.mqtt.session.machine import MqttSession
from mainstem.protocols.mqtt.session.settings import MqttSettings, MqttWebSocketSettings
from mainstem.wire.websocket.session import WebSocketLimits, WebSocketSession

NAME, WEBSOCKET_NAME = "mqtt", "mqtt-websocket"
DEFAULT_PORT, WEBSOCKET_PORT = 1883, 8083
SUBPROTOCOLS = ("mqtt", "mqttv3.1")
"""Of a WebSocket; the second one is of clients of MQTT 3.1."""


class Operations(Protocol):
    """What the server tells about itself."""

    def version(self) -> str:
        """Of this program."""


class SettingsUnusable(ValueError):
    """What was set cannot be served."""


def check_listening(settings: MqttSettings, hosts: Iterable[str]) -> None:
    """Whether it is safe to listen there. Raises SettingsUnusable."""
    _check(NAME, settings, hosts)


def check_websocket(settings: MqttSettings, hosts: Iterable[str]) -> None:
    """Whether it is safe to listen there. Raises SettingsUnusable."""
    _check(WEBSOCKET_NAME, settings, hosts)


def _check(name: str, settings: MqttSettings, hosts: Iterable[str]) -> None:
    for host in hosts:
        if settings.anonymous and not settings.anybody_from_anywhere and not _is_loopback(host):
            raise SettingsUnusable(
                f"{name} would be open to anybody who reaches {host}: set {name}.anonymous=false, "
                f"or {name}.anybody_from_anywhere=true"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class MqttAdapter:
    """Opens a session for each connection."""

    def __init__(
        self,
        settings: MqttSettings,
        broker: Broker,
        operations: Operations,
        spawn: Spawn | None = None,
        name: str = NAME,
    ) -> None:
        self._settings = settings
        entrance = Entrance(is_wide=settings.anybody_from_anywhere, needs_proof=not settings.anonymous)
        broker.door.open(name, entrance)
        self._tasks: set[asyncio.Task[None]] = set()
        self.node = Node(broker, settings, name, operations.version(), spawn or self._spawn_task)
        publish_in_intervals(self.node)

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> MqttSession:
        """For a new connection."""
        return MqttSession(wake, self._settings, lambda session: MqttConnection(self.node, session, endpoints))

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        # The loop itself holds tasks only weakly.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class MqttWebSocketAdapter:
    """The same, carried by WebSocket."""

    def __init__(
        self, settings: MqttWebSocketSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        self._adapter = MqttAdapter(settings, broker, operations, spawn, WEBSOCKET_NAME)
        self._limits = WebSocketLimits(message_bytes_max=settings.message_bytes_max)

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> WebSocketSession:
        """For a new connection."""
        return WebSocketSession(
            wake,
            self._limits,
            lambda carried_wake, chosen, upgrade: self._adapter.open_session(carried_wake, endpoints),
            SUBPROTOCOLS,
        )
