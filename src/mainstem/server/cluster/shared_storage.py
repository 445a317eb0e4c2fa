"""The engine of a shard's owner, with all that works for it: opened, looked after and closed as one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from mainstem.model.errors import MainstemError, OwnershipLost
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.runtime.disk import LocalDisk
from mainstem.storage.shared.lanes import SharedThreads
from mainstem.storage.shared.opening import open_engine, prepare
from mainstem.storage.shared.ownership import LeasedOwnership
from mainstem.storage.shared.ports import Claim, ObjectStore
from mainstem.storage.shared.postgresql import PostgresCatalog
from mainstem.storage.shared.reaper import reap
from mainstem.storage.shared.settings import ClusterSettings

log = logging.getLogger("mainstem.cluster")

REAP_SECONDS_MIN = 10.0
REAPS_PER_GRACE = 6
RELEASE_SECONDS_MAX = 5.0


class SharedStorage:
    """A shard that this broker owns. Made when it was taken; the lease is renewed from then on."""

    engine: LocalEngine

    def __init__(
        self, settings: EngineSettings, cluster: ClusterSettings, objects: ObjectStore, claim: Claim, sent: float
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._objects = objects
        self._claim = claim
        loop = asyncio.get_running_loop()
        self._runtime = local_runtime(loop)
        self._lanes = SharedThreads(loop, cluster.uploads_max)
        self._catalog = PostgresCatalog(cluster.database, cluster.grace_ms)
        self.ownership = LeasedOwnership(
            catalog=self._catalog,
            runtime=self._runtime,
            lanes=self._lanes,
            shard=cluster.shard,
            claim=claim,
            lease_ms=cluster.lease_ms,
            sent=sent,
        )
        self.lost: OwnershipLost | None = None
        self.ownership.on_lost(self._note_loss)
        self._reap_timer = loop.call_later(self._reap_pause_s, self._reap)
        self._is_closed = False

    @property
    def term(self) -> int:
        """How often the shard has changed hands."""
        return self._claim.epoch

    def _note_loss(self, error: OwnershipLost) -> None:
        self.lost = error

    async def open(self) -> None:
        """Bring the shard here and open it. Raises kinds of MainstemError, OSError."""
        begun = time.monotonic()
        prepared = await asyncio.get_running_loop().run_in_executor(
            None,
            lambda: prepare(
                local=LocalDisk(),
                settings=self._settings,
                cluster=self._cluster,
                catalog=self._catalog,
                objects=self._objects,
                ownership=self.ownership,
                claim=self._claim,
            ),
        )
        if self.lost is not None:
            raise self.lost
        self.engine = open_engine(
            prepared=prepared,
            runtime=self._runtime,
            lanes=self._lanes,
            settings=self._settings,
            cluster=self._cluster,
            catalog=self._catalog,
            objects=self._objects,
            ownership=self.ownership,
        )
        log.info("shard %s is open in term %d after %.2f s", self._cluster.shard, self.term, time.monotonic() - begun)

    def announce(self, addresses: dict[str, str]) -> None:
        """Tell the others where clients are served."""

        def job() -> None:
            self._catalog.announce(self._cluster.shard, self.term, addresses)

        def done(_: None, error: BaseException | None) -> None:
            if error is not None and self.lost is None and not self._is_closed:
                log.warning("where this broker listens could not be told yet: %s", error)
                self._runtime.call_later(0.2, lambda: self.announce(addresses))

        self._lanes.upkeep(job, done)

    def on_hand_over(self, callback: Callable[[], None]) -> None:
        """Call, perhaps more than once, when an operator wants another broker to own the shard."""
        self.ownership.on_hand_over = callback

    @property
    def _reap_pause_s(self) -> float:
        return max(REAP_SECONDS_MIN, self._cluster.grace_ms / 1000 / REAPS_PER_GRACE)

    def _reap(self) -> None:
        def done(count: int | None, error: BaseException | None) -> None:
            if self._is_closed:
                return
            if error is not None:
                log.warning("objects that nobody needs were not removed: %s", error)
            elif count:
                log.info("%d objects that nobody needs were removed", count)
            self._reap_timer = asyncio.get_running_loop().call_later(self._reap_pause_s, self._reap)

        if self.lost is None:
            shard, grace_ms = self._cluster.shard, self._cluster.grace_ms
            self._lanes.upkeep(lambda: reap(self._catalog, self._objects, shard, grace_ms), done)

    async def close(self) -> None:
        """Finish what is under way, let the shard go, end the threads. Raises kinds of MainstemError."""
        self._is_closed = True
        self._reap_timer.cancel()
        try:
            if self.lost is None and hasattr(self, "engine"):
                await self.engine.close()
            if self.lost is None:
                await self._release()
        finally:
            self.ownership.forgo()
            self._lanes.close()
            self._runtime.close()
            self._catalog.close()

    async def _release(self) -> None:
        released = asyncio.Event()
        self.ownership.release(released.set)
        # Where PostgreSQL does not answer, the lease ends by itself.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS_MAX):
                await released.wait()

    async def abandon(self) -> None:
        """Close after a failure or a loss: nothing more is written, and nothing is waited for long."""
        with contextlib.suppress(MainstemError, OSError):
            await self.close()
