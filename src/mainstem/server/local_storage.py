"""The engine on local disk together with the threads it works with: opened, maintained and closed as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from mainstem.model.errors import DiskError
from mainstem.storage.contract import Budget, Engine, MaintainReport
from mainstem.storage.runtime.disk import LocalDisk

CACHES = "shards"
"""Below the data directory of a cluster's broker: copies of what shards have in the shared store."""

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
        from mainstem.storage.local.engine import LocalEngine
        from mainstem.storage.local.runtime import local_runtime

        settings = _with_absolute_paths(settings)
        if Path(settings.data_directory, CACHES).exists():
            raise DiskError(
                f"{settings.data_directory} holds copies of a shared log: start with --cluster and --store, "
                "or name another directory with --data-dir"
            )
        self._runtime = local_runtime(asyncio.get_running_loop())
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


def _with_absolute_paths(settings: EngineSettings) -> EngineSettings:
    """State names directories outside the data directory: from wherever the broker is started, they are the same."""
    return msgspec.structs.replace(
        settings,
        data_directory=str(Path(settings.data_directory).absolute()),
        wal_directory=settings.wal_directory and str(Path(settings.wal_directory).absolute()),
        run_directories=tuple(str(Path(directory).absolute()) for directory in settings.run_directories),
    )
