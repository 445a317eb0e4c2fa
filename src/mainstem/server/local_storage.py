"""The engine on local disk together with the threads it works with: opened, maintained and closed as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mainstem.storage.contract import Budget, Engine, MaintainReport
from mainstem.storage.disk import LocalDisk

if TYPE_CHECKING:
    from mainstem.storage.answer import Answer
    from mainstem.storage.local.settings import EngineSettings


class MaintainedEngine(Engine, Protocol):
    """An engine, with what the life cycle needs of it beyond what is offered to clients."""

    def on_failure(self, callback: Callable[[BaseException], None]) -> None:
        """Be told when a write or sync failed: nothing may be acknowledged any more."""

    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        """Do what is due."""

    def close(self) -> Answer[None]:
        """Make everything durable and give the directory back."""


class Storage(Protocol):
    """An open engine and what has to be closed after it."""

    @property
    def engine(self) -> MaintainedEngine:
        """The engine."""

    async def close(self) -> None:
        """The engine first, then its threads."""


class LocalStorage:
    """LocalEngine on the real disk, with its lanes beside the running event loop."""

    def __init__(self, settings: EngineSettings) -> None:
        # Here, and not above, so that commands which only read settings do not load the engine.
        from mainstem.storage.async_runtime import AsyncRuntime
        from mainstem.storage.local.engine import LocalEngine

        self._runtime = AsyncRuntime(asyncio.get_running_loop())
        try:
            self.engine: MaintainedEngine = LocalEngine.open(disk=LocalDisk(), runtime=self._runtime, settings=settings)
        except BaseException:
            self._runtime.close()
            raise

    async def close(self) -> None:
        """The engine first, then its threads."""
        try:
            await self.engine.close()
        finally:
            self._runtime.close()


OpenStorage: TypeAlias = "Callable[[EngineSettings], Storage]"
