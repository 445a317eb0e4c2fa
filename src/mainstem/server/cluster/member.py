"""One broker of a cluster: it is registered, knows the others and the owner, and takes the shard when that is free."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from mainstem.model.errors import DiskError, MainstemError, OwnershipLost, StoreUnreachable
from mainstem.server.cluster.shared_storage import SharedStorage
from mainstem.server.local_storage import CACHES
from mainstem.server.settings import Settings
from mainstem.storage.local.directories import IDENTITY, DirectoryLock
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.shared.database_identity import check_database
from mainstem.storage.shared.object_storage import S3Objects
from mainstem.storage.shared.ports import Claim, ShardStatus
from mainstem.storage.shared.postgresql import PostgresCatalog
from mainstem.storage.shared.settings import ClusterSettings

log = logging.getLogger("mainstem.cluster")

T = TypeVar("T")

TAKE_SECONDS = 0.25
"""How often a broker that stands by looks whether the shard is free."""
LOOK_SECONDS = 1.0
"""How often a broker says that it is here, and looks who else is."""
NAME = "broker"
"""A file with the name that a broker gave itself when it first came: after a restart it is the same broker."""


class Member:
    """A broker in its cluster, from `join` to `leave`. Used on the event loop's thread."""

    def __init__(self, settings: Settings, addresses: dict[str, str]) -> None:
        self.cluster: ClusterSettings = settings.cluster
        self.number = 0
        """By which clients of Kafka know this broker."""
        self.brokers: dict[int, dict[str, str]] = {}
        """Where each broker listens, by number."""
        self.owner: ShardStatus | None = None
        self._data_directory = settings.storage.data_directory
        self._settings = _cache_settings(settings.storage, self.cluster.shard)
        self._addresses = addresses
        self.name = ""
        """By which people know it, and PostgreSQL: no other broker has the same."""
        self._catalog = PostgresCatalog(self.cluster.database, self.cluster.grace_ms)
        self._objects = S3Objects(self.cluster.store)
        # One thread, and so one connection, for each of the two that must not wait for each other.
        self._taking = ThreadPoolExecutor(1, "mainstem-standby")
        self._looking = ThreadPoolExecutor(1, "mainstem-look")
        self._lock: DirectoryLock | None = None
        self._system: tuple[str, int] | None = None
        """Identity and timeline of the database, as the object store knows them."""
        self._looks: asyncio.Task[None] | None = None
        self._owner_known = asyncio.Event()

    # Joining and leaving

    async def join(self) -> None:
        """Check all that is shared, and be known. Raises kinds of MainstemError, OSError."""
        self._take_directory()
        await self._in(self._looking, self._check)
        await self._in(self._looking, self._look)
        self._looks = asyncio.get_running_loop().create_task(self._go_on_looking())

    async def leave(self) -> None:
        """Be gone."""
        if self._looks is not None:
            self._looks.cancel()
            await asyncio.wait([self._looks])
        self._taking.shutdown(wait=False)
        self._looking.shutdown(wait=False)
        self._catalog.close()
        if self._lock is not None:
            self._lock.release()

    def _take_directory(self) -> None:
        root = self._settings.data_directory
        if Path(self._data_directory, IDENTITY).exists():
            raise DiskError(
                f"{self._data_directory} holds the log of a broker that stands alone: name another directory with "
                "--data-dir, in which a cluster keeps copies only"
            )
        Path(root).mkdir(parents=True, exist_ok=True)
        self._lock = DirectoryLock(root)
        path = Path(root, NAME)
        if not path.exists():
            path.write_text(f"{socket.gethostname()}-{os.urandom(4).hex()}\n", encoding="ascii")
        self.name = path.read_text(encoding="ascii").strip()

    def _check(self) -> None:
        shard = self.cluster.shard
        self._catalog.make_tables(shard)
        self._objects.check(shard)
        self._check_database()
        self.number = self._catalog.register(shard, self.name)

    def _check_database(self) -> None:
        """Whenever another timeline answers: a fail-over of PostgreSQL needs no fail-over of ours."""
        system = self._catalog.system()
        if system != self._system:
            check_database(self._objects, self.cluster.shard, *system)
            self._system = system

    # Who is there

    def _look(self) -> None:
        self._check_database()
        view = self._catalog.look(self.cluster.shard, self.number, self._addresses)
        self.brokers = view.brokers
        self.owner = view.owner

    async def _go_on_looking(self) -> None:
        while True:
            try:
                await self._in(self._looking, self._look)
            except MainstemError as error:
                log.warning("the cluster is not seen: %s", error)
            if self.owner is not None and self.owner.addresses:
                self._owner_known.set()
            else:
                self._owner_known.clear()
            await asyncio.sleep(LOOK_SECONDS)

    def owner_address(self, protocol: str) -> str | None:
        """Where the owner serves a protocol, as far as is known."""
        owner = self.owner
        return None if owner is None or owner.owner == self.name else owner.addresses.get(protocol)

    async def wait_owner_address(self, protocol: str, seconds: float) -> str | None:
        """The same, once there is an owner; None when there was none in all that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while (address := self.owner_address(protocol)) is None:
                    await self._owner_known.wait()
                    if self.owner_address(protocol) is None:
                        await asyncio.sleep(LOOK_SECONDS)
                return address
        return None

    # Ownership

    async def take(self) -> SharedStorage | None:
        """The shard, open, if it is free. Raises kinds of MainstemError, OSError."""
        sent = time.monotonic()
        shard, lease_ms = self.cluster.shard, self.cluster.lease_ms
        claim: Claim | None = await self._in(self._taking, lambda: self._catalog.take(shard, self.name, lease_ms))
        if claim is None:
            return None
        log.info("shard %s is taken in term %d", shard, claim.epoch)
        storage = SharedStorage(self._settings, self.cluster, self._objects, claim, sent)
        try:
            system = await self._in(self._taking, self._catalog.system)
            await self._in(self._taking, lambda: check_database(self._objects, shard, *system))
            await storage.open()
        except BaseException:
            await storage.abandon()
            raise
        return storage

    async def try_to_take(self) -> SharedStorage | None:
        """The same; None also where the store did not answer in time. Raises kinds of DiskError, OSError."""
        try:
            return await self.take()
        except (StoreUnreachable, OwnershipLost) as error:
            log.warning("shard %s could not be taken: %s", self.cluster.shard, error)
            return None

    async def stand_by(self, stop: asyncio.Event, not_before: float) -> SharedStorage | None:
        """Wait until the shard is here, or `stop` is set. Before a time, it is left to others."""
        while not stop.is_set():
            if time.monotonic() >= not_before or self._somebody_else_owns():
                storage = await self.try_to_take()
                if storage is not None:
                    return storage
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TAKE_SECONDS):
                    await stop.wait()
        return None

    def _somebody_else_owns(self) -> bool:
        return self.owner is not None and self.owner.owner != self.name

    async def _in(self, thread: ThreadPoolExecutor, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(thread, job)


def _cache_settings(settings: EngineSettings, shard: str) -> EngineSettings:
    """Where a broker keeps copies: below its data directory, apart from what a broker that stands alone would keep there."""
    root = Path(settings.data_directory).absolute() / CACHES / shard
    return msgspec.structs.replace(settings, data_directory=str(root), wal_directory=None, run_directories=())
