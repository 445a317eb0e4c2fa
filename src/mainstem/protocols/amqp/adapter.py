"""What the server registers for AMQP."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Protocol

from mainstem.broker.broker import Broker
from mainstem.broker.users.door import Entrance
from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.protocols.amqp.handlers.connection import AmqpConnection
from mainstem.protocols.amqp.handlers.dialect import introduce
from mainstem.protocols.amqp.handlers.meters import Meter, Meters
from mainstem.protocols.amqp.handlers.node import Node, Spawn
from mainstem.protocols.amqp.session import AmqpSession, AmqpSettings

__all__ = ["DEFAULT_PORT", "NAME", "AmqpAdapter", "check_listening", "introduce"]

NAME = "amqp"
DEFAULT_PORT = 5672


class Operations(Protocol):
    """What the server tells about itself."""

    def version(self) -> str:
        """Of this program."""

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> Meter:
        """Where requests of one kind are counted."""


class SettingsUnusable(ValueError):
    """What was set cannot be served."""


def read_password(settings: AmqpSettings) -> str | None:
    """The first line of the password file; None without a user. Raises SettingsUnusable."""
    if settings.user is None:
        return None
    if settings.password_file is None:
        raise SettingsUnusable("amqp.user needs amqp.password_file")
    try:
        lines = Path(settings.password_file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsUnusable(f"amqp.password_file cannot be read: {error}") from None
    if not lines or not lines[0]:
        raise SettingsUnusable("amqp.password_file is empty")
    return lines[0]


def entrance_of(settings: AmqpSettings) -> Entrance:
    """How the settings let clients in. Raises SettingsUnusable."""
    password = read_password(settings) or ""
    return Entrance(settings.user or "", password.encode(), is_wide=settings.anybody_from_anywhere)


def check_listening(settings: AmqpSettings, hosts: Iterable[str]) -> None:
    """Whether it is safe to listen there. Raises SettingsUnusable."""
    if settings.password_file is not None and settings.user is None:
        raise SettingsUnusable("amqp.password_file needs amqp.user")
    if settings.user is not None:
        read_password(settings)
        return
    for host in hosts:
        if not settings.anybody_from_anywhere and not is_loopback(host):
            raise SettingsUnusable(
                f"amqp would be open to anybody who reaches {host}: set amqp.user and amqp.password_file, "
                "or amqp.anybody_from_anywhere=true"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AmqpAdapter:
    """Opens a session per connection."""

    def __init__(
        self, settings: AmqpSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        self._settings = settings
        self._tasks: set[asyncio.Task[None]] = set()
        broker.door.open(NAME, entrance_of(settings))
        self.node = Node(
            broker,
            settings,
            operations.version(),
            spawn or self._spawn_task,
            Meters(lambda operation: operations.request_meter(NAME, operation)),
        )

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> AmqpSession:
        """For a new connection."""
        return AmqpSession(wake, self._settings, lambda session: AmqpConnection(self.node, session, endpoints))

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        # The loop itself holds tasks only weakly.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
