"""What the server registers for Pulsar."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from mainstem.broker.broker import Broker
from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.protocols.pulsar.handlers.calls import Spawn
from mainstem.protocols.pulsar.handlers.connection import PulsarConnection
from mainstem.protocols.pulsar.handlers.parts import PulsarParts
from mainstem.protocols.pulsar.session.machine import PulsarSession
from mainstem.protocols.pulsar.session.settings import PulsarSettings

NAME = "pulsar"
PORT = 6650

_rules: WeakKeyDictionary[Broker, PulsarSettings] = WeakKeyDictionary()
"""The administration speaks of the broker by the settings of the binary protocol."""
_parts: WeakKeyDictionary[Broker, PulsarParts] = WeakKeyDictionary()


class Operations(Protocol):
    """What the server tells about itself."""

    def advertised(self) -> Mapping[str, list[str]]:
        """Addresses that clients are told, by listener."""

    def version(self) -> str:
        """Of this program."""


def check_pulsar(settings: PulsarSettings, hosts: Iterable[str]) -> None:
    """Whether it is safe to listen there. Raises ValueError."""
    _check(NAME, settings.anybody_from_anywhere, hosts)


def _check(name: str, is_open: bool, hosts: Iterable[str]) -> None:
    for host in hosts:
        if not is_open and not _is_loopback(host):
            raise ValueError(
                f"{name} would be open to anybody who reaches {host}: set {name}.anybody_from_anywhere=true"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def introduce(broker: Broker, settings: PulsarSettings) -> None:
    """Keep the rules that both listeners follow, whether the binary protocol listens or not."""
    _rules[broker] = settings


class _Tasks:
    """The loop holds tasks only weakly; here they are kept until they end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def parts_of(broker: Broker, operations: Operations, spawn: Spawn | None = None) -> PulsarParts:
    """What both listeners share."""
    found = _parts.get(broker)
    if found is None:
        rules = _rules.get(broker, PulsarSettings())
        found = PulsarParts(
            broker, rules, operations.version(), lambda: address_of(operations), spawn or _Tasks().spawn
        )
        _parts[broker] = found
    return found


def address_of(operations: Operations) -> str | None:
    """Where the binary protocol is, for clients; None: it does not listen."""
    return next(iter(operations.advertised().get(NAME, ())), None)


class PulsarBroker:
    """Serves the binary protocol."""

    def __init__(
        self, settings: PulsarSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        introduce(broker, settings)
        self._settings = settings
        self.parts = parts_of(broker, operations, spawn)

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> PulsarSession:
        """For a new connection."""
        return PulsarSession(
            wake,
            self._settings.message_bytes_max,
            lambda session: PulsarConnection(self.parts, session, endpoints),
        )
