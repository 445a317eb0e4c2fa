"""What the server registers for Pulsar."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from mainstem.broker.broker import Broker
from mainstem.broker.users.door import Entrance
from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.protocols.pulsar.handlers.admin.cluster import ClusterPaths
from mainstem.protocols.pulsar.handlers.admin.namespaces import NamespacePaths
from mainstem.protocols.pulsar.handlers.admin.paths import AdminPaths, Meter
from mainstem.protocols.pulsar.handlers.admin.schemas import SchemaPaths
from mainstem.protocols.pulsar.handlers.admin.subscriptions import SubscriptionPaths
from mainstem.protocols.pulsar.handlers.admin.topics import TopicPaths
from mainstem.protocols.pulsar.handlers.calls import Spawn
from mainstem.protocols.pulsar.handlers.connection import PulsarConnection
from mainstem.protocols.pulsar.handlers.parts import PulsarParts
from mainstem.protocols.pulsar.session.admin import AdminSession
from mainstem.protocols.pulsar.session.machine import PulsarSession
from mainstem.protocols.pulsar.session.settings import AdminSettings, PulsarSettings
from mainstem.wire.http.dates import HttpDate
from mainstem.wire.http.hosts import HostCheck

NAME, ADMIN_NAME = "pulsar", "pulsar-admin"
PORT, ADMIN_PORT = 6650, 8080

_rules: WeakKeyDictionary[Broker, PulsarSettings] = WeakKeyDictionary()
"""The administration speaks of the broker by the settings of the binary protocol."""
_parts: WeakKeyDictionary[Broker, PulsarParts] = WeakKeyDictionary()


class Operations(Protocol):
    """What the server tells about itself."""

    def advertised(self) -> Mapping[str, list[str]]:
        """Addresses that clients are told, by listener."""

    def version(self) -> str:
        """Of this program."""

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> Meter:
        """Counts requests of one kind."""

    @property
    def listeners(self) -> Sequence[Any]:
        """What is listened on."""


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


def address_of(operations: Operations, name: str = NAME) -> str | None:
    """Where a listener is, for clients; None: it does not listen."""
    return next(iter(operations.advertised().get(name, ())), None)


class PulsarBroker:
    """Serves the binary protocol."""

    def __init__(
        self, settings: PulsarSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        introduce(broker, settings)
        broker.door.open(NAME, Entrance(is_wide=settings.anybody_from_anywhere))
        self._settings = settings
        self.parts = parts_of(broker, operations, spawn)

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> PulsarSession:
        """For a new connection."""
        return PulsarSession(
            wake,
            self._settings.message_bytes_max,
            lambda session: PulsarConnection(self.parts, session, endpoints),
        )


class PulsarAdmin:
    """Serves the administration over HTTP."""

    def __init__(
        self, settings: AdminSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        self._settings = settings
        self._operations = operations
        self._tasks = _Tasks()
        broker.door.open(ADMIN_NAME, Entrance(is_wide=settings.anybody_from_anywhere))
        parts = parts_of(broker, operations, spawn)
        paths = [
            *ClusterPaths(parts, operations.version(), lambda: address_of(operations, ADMIN_NAME)).paths(),
            *NamespacePaths(parts).paths(),
            *TopicPaths(parts).paths(),
            *SubscriptionPaths(parts).paths(),
            *SchemaPaths(parts).paths(),
        ]
        check = HostCheck(self._listening, lambda: operations.advertised().get(ADMIN_NAME, ()))
        meter = lambda operation: operations.request_meter(ADMIN_NAME, operation)  # noqa: E731
        self._handle = AdminPaths(paths, broker.door, spawn or self._tasks.spawn, check, meter).handle
        self._date = HttpDate(time.time)

    def _listening(self) -> list[str]:
        return [str(listener.address) for listener in self._operations.listeners if listener.name == ADMIN_NAME]

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> AdminSession:
        """For a new connection."""
        handle = functools.partial(self._handle, endpoints=endpoints)
        return AdminSession(wake, self._settings, handle, self._date)
