"""What the server registers for STOMP."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from mainstem.broker.broker import Broker
from mainstem.broker.users.door import Entrance
from mainstem.model.endpoints import TLS_SUFFIX, UNKNOWN, Endpoints
from mainstem.protocols.stomp.handlers.connection import StompConnection
from mainstem.protocols.stomp.handlers.node import NAME, Meter, Node, Spawn
from mainstem.protocols.stomp.session.machine import StompSession
from mainstem.protocols.stomp.session.settings import StompSettings, WebSettings
from mainstem.wire.http.hosts import host_of, is_this_machine
from mainstem.wire.websocket.handshake import HandshakeRefused, Upgrade
from mainstem.wire.websocket.session import WebSocketLimits, WebSocketSession

__all__ = ["NAME", "PORT", "WEB_NAME", "WEB_PORT", "StompAdapter", "WebAdapter", "check_listening", "introduce"]

PORT = 61613
WEB_NAME = "stomp-websocket"
WEB_PORT = 15674
SUBPROTOCOLS = ("v12.stomp", "v11.stomp", "v10.stomp")
ANY_ORIGIN = "*"

_rules: WeakKeyDictionary[Broker, StompSettings] = WeakKeyDictionary()
"""Both listeners follow the same ones."""


class Operations(Protocol):
    """What the server tells about itself."""

    def advertised(self) -> Mapping[str, list[str]]:
        """The addresses clients are shown, by listener name."""

    def version(self) -> str:
        """Of this program."""

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> Meter:
        """Where requests of one kind are counted."""


class SettingsUnusable(ValueError):
    """What was set cannot be served."""


def introduce(broker: Broker, settings: StompSettings) -> None:
    """Keep the rules of both listeners, whether that for TCP listens or not."""
    _rules[broker] = settings


def check_listening(settings: StompSettings, hosts: Iterable[str]) -> None:
    """Whether it can be served. Who a client is, it has to prove; `guest` is let in from this machine alone."""
    read_password(settings)


def read_password(settings: StompSettings) -> str:
    """Of the default user. Raises SettingsUnusable."""
    if settings.default_password_file is None:
        return settings.default_user
    try:
        lines = Path(settings.default_password_file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsUnusable(f"stomp.default_password_file cannot be read: {error}") from None
    if not lines or not lines[0]:
        raise SettingsUnusable("stomp.default_password_file is empty")
    return lines[0]


def _is_machine(host: str, advertised: Mapping[str, list[str]]) -> bool:
    """Whether it is an address, or a name of this machine."""
    name = host_of(host)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        names = (NAME, WEB_NAME, NAME + TLS_SUFFIX, WEB_NAME + TLS_SUFFIX)
        own = {host_of(address) for listener in names for address in advertised.get(listener, ())}
        return name in own or name == socket.gethostname().lower() or is_this_machine(name)
    return True


class StompAdapter:
    """Opens a session per connection."""

    def __init__(
        self, settings: StompSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        self._settings = settings
        self._tasks: set[asyncio.Task[None]] = set()
        broker.door.open(NAME, Entrance(is_wide=settings.anybody_from_anywhere))
        self.node = Node(
            broker,
            settings,
            read_password(settings),
            operations.version(),
            spawn or self._spawn_task,
            lambda operation: operations.request_meter(NAME, operation),
            is_machine=lambda host: _is_machine(host, operations.advertised()),
        )

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> StompSession:
        """For a new connection."""
        return StompSession(wake, self._settings, lambda session: StompConnection(self.node, session, endpoints))

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        # The loop itself holds tasks only weakly.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class WebAdapter:
    """The same over WebSocket."""

    def __init__(
        self, settings: WebSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        self._settings = settings
        rules = _rules.get(broker, StompSettings())
        self._stomp = StompAdapter(rules, broker, operations, spawn)
        size = rules.head_bytes_max + rules.message_bytes_max
        self._limits = WebSocketLimits(message_bytes_max=size, handshake_timeout_ms=rules.handshake_timeout_ms)

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> WebSocketSession:
        """For a new connection."""

        def open_carried(wake: Callable[[], None], chosen: str | None, upgrade: Upgrade) -> StompSession:
            self._check(upgrade)
            return self._stomp.open_session(wake, endpoints)

        return WebSocketSession(wake, self._limits, open_carried, SUBPROTOCOLS, is_text=True, needs_subprotocol=False)

    def _check(self, upgrade: Upgrade) -> None:
        if urlsplit(upgrade.path).path.rstrip("/") != self._settings.path.rstrip("/"):
            raise HandshakeRefused(404, f"STOMP is spoken at {self._settings.path}")
        origin = upgrade.headers.get("origin")
        allowed = self._settings.origins
        if origin is None or ANY_ORIGIN in allowed or origin in allowed:
            return
        # A page of any site could use the default user of a broker that its reader reaches.
        try:
            host = urlsplit(origin).hostname or ""
        except ValueError:
            host = ""
        if not host or not (is_this_machine(host) or host == host_of(upgrade.headers["host"])):
            raise HandshakeRefused(403, f"pages of {origin} may not connect; stomp-websocket.origins can name them")
