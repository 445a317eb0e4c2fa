"""What the server registers for the management API."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.model.endpoints import UNKNOWN, Endpoints, is_of
from mainstem.protocols.management.handlers.bindings import BindingPaths
from mainstem.protocols.management.handlers.callers import Callers
from mainstem.protocols.management.handlers.clients import ClientPaths
from mainstem.protocols.management.handlers.definitions import DefinitionPaths
from mainstem.protocols.management.handlers.exchanges import ExchangePaths
from mainstem.protocols.management.handlers.hosts import HostPaths
from mainstem.protocols.management.handlers.overview import Operations, OverviewPaths
from mainstem.protocols.management.handlers.parameters import ParameterPaths
from mainstem.protocols.management.handlers.paths import Path, Paths
from mainstem.protocols.management.handlers.policies import PolicyPaths
from mainstem.protocols.management.handlers.queues import QueuePaths
from mainstem.protocols.management.handlers.users import UserPaths
from mainstem.protocols.management.session import ManagementSession, ManagementSettings
from mainstem.wire.http.dates import HttpDate
from mainstem.wire.http.hosts import HostCheck, is_this_machine

NAME = "management"
DEFAULT_PORT = 15672


class ManagementAdapter:
    """Opens a session per connection."""

    def __init__(
        self,
        settings: ManagementSettings,
        broker: Broker,
        operations: Operations,
        spawn: Callable[[Coroutine[Any, Any, None]], object] | None = None,
    ) -> None:
        self._settings = settings
        self._operations = operations
        self._tasks: set[asyncio.Task[None]] = set()
        self.paths: list[Path] = [
            *OverviewPaths(broker, operations).paths(),
            *QueuePaths(broker).paths(),
            *ExchangePaths(broker).paths(),
            *BindingPaths(broker).paths(),
            *ClientPaths(broker).paths(),
            *HostPaths(broker).paths(),
            *UserPaths(broker).paths(),
            *PolicyPaths(broker, is_operators=False).paths(),
            *PolicyPaths(broker, is_operators=True).paths(),
            *ParameterPaths(broker).paths(),
            *DefinitionPaths(broker).paths(),
        ]
        callers = Callers(broker, settings.guest, self._is_here_alone)
        check = HostCheck(self._listening, lambda: [])
        counted = [path.counted(operations.request_meter(NAME, f"{path.method} {path.path}")) for path in self.paths]
        self._handle = Paths(counted, callers, spawn or self._spawn_task, check).handle
        self._date = HttpDate(time.time)

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> ManagementSession:
        """For a new connection."""
        handle = functools.partial(self._handle, endpoints=endpoints)
        return ManagementSession(wake, self._settings, handle, self._date)

    def _listening(self) -> list[str]:
        return [str(listener.address) for listener in self._operations.listeners if is_of(NAME, listener.name)]

    def _is_here_alone(self) -> bool:
        """Whether only this machine reaches us."""
        hosts = [listener.address.host for listener in self._operations.listeners if is_of(NAME, listener.name)]
        return all(is_this_machine(host) for host in hosts)

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        # The loop itself holds tasks only weakly.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
