"""What the server registers for the schema registry: a listener of its own, and the same paths for the listener of HTTP."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.users.door import Entrance
from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.protocols.registry.handlers.ids import IdPaths
from mainstem.protocols.registry.handlers.logins import NAME, Logins
from mainstem.protocols.registry.handlers.paths import Call, Path, Paths
from mainstem.protocols.registry.handlers.server import Meter, Operations, ServerPaths
from mainstem.protocols.registry.handlers.settings import SettingPaths
from mainstem.protocols.registry.handlers.subjects import SubjectPaths
from mainstem.protocols.registry.session import RegistrySession, RegistrySettings
from mainstem.wire.http.dates import HttpDate
from mainstem.wire.http.hosts import HostCheck, is_this_machine

__all__ = ["DEFAULT_PORT", "MOUNT", "NAME", "RegistryAdapter", "check_listening"]

DEFAULT_PORT = 8085
MOUNT = "registry"
"""Below this step the listener of HTTP has the same paths."""


def check_listening(settings: RegistrySettings, hosts: Iterable[str]) -> None:
    """Whether it is safe to listen there: any client that can connect can delete schemas. Raises ValueError."""
    for host in hosts:
        if not settings.anybody_from_anywhere and not is_this_machine(host):
            raise ValueError(
                f"schema-registry would be open to anybody who reaches {host}: put a proxy that knows its users in front, "
                "or set schema-registry.anybody_from_anywhere=true"
            )


class RegistryAdapter:
    """Opens a session per connection."""

    def __init__(
        self,
        settings: RegistrySettings,
        broker: Broker,
        operations: Operations,
        spawn: Callable[[Coroutine[Any, Any, None]], object] | None = None,
        *,
        is_mounted: bool = False,
    ) -> None:
        self._settings = settings
        self._operations = operations
        self._tasks: set[asyncio.Task[None]] = set()
        if not is_mounted:
            broker.door.open(NAME, Entrance(is_wide=settings.anybody_from_anywhere))
        paths = [
            *SubjectPaths(broker.schemas).paths(),
            *IdPaths(broker.schemas).paths(),
            *SettingPaths(broker.schemas).paths(),
            *ServerPaths(broker, operations).paths(),
        ]
        counted = [_counted(path, operations.request_meter(NAME, f"{path.method} {path.path}")) for path in paths]
        self._paths = Paths(
            counted, spawn or self._spawn_task, HostCheck(self._listening, lambda: []), Logins(broker.door)
        )
        self.answer = self._paths.answer
        """For a listener that has looked at the request before."""
        self._date = HttpDate(time.time)

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> RegistrySession:
        """For a new connection."""
        handle = functools.partial(self._paths.handle, endpoints=endpoints)
        return RegistrySession(wake, self._settings, handle, self._date)

    def _listening(self) -> list[str]:
        return [str(listener.address) for listener in self._operations.listeners if listener.name == NAME]

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        # The loop itself holds tasks only weakly.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _counted(path: Path, meter: Meter) -> Path:
    handler = path.handler

    def count(call: Call) -> Any:
        meter.requests += 1
        return handler(call)

    return path._replace(handler=count)
