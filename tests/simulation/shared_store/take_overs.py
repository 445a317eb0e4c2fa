"""Histories over a shared store: every start is a take-over in a directory that counts for nothing.

An owner that was killed may live on as a zombie: what it had under way in its lanes is still done, now and then, beside the new
owner.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import msgspec

from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.merge.merge import run_merge_job
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.runtime.runtime import Done
from mainstem.storage.shared.opening import open_engine, prepare
from mainstem.storage.shared.ownership import LeasedOwnership
from mainstem.storage.shared.reaper import reap
from mainstem.storage.shared.settings import ClusterSettings
from mainstem.testing.disk import Interrupted, SimulatedDisk
from mainstem.testing.runtime import SimulatedRuntime
from mainstem.testing.shared_store import SimulatedCatalog, SimulatedObjects, SimulatedStore
from tests.simulation.seed_run import Outcome, run_seed
from tests.simulation.small_limits import SMALL_LIMITS
from tests.simulation.temper import Temper, roomy_temper
from tests.simulation.world import World

T = TypeVar("T")

SHARD = "main"
LEASE_MS = 1 << 40
"""For ever: here an owner ends by being killed or replaced. Leases are tested by themselves."""
GRACE_MS = 2_000
ZOMBIES_MAX = 2
ZOMBIE_STEPS_MAX = 12


class SimulatedLanes:
    """All lanes are reading threads: any order that real ones could show. Groups enter the catalog one at a time anyway."""

    def __init__(self, runtime: SimulatedRuntime, haunt: Callable[[], None]) -> None:
        self._runtime = runtime
        self._haunt = haunt

    def append(self, job: Callable[[], T], done: Done[T]) -> None:
        def haunted() -> T:
            self._haunt()
            return job()

        self._runtime.read(haunted, done)

    def upload(self, job: Callable[[], T], done: Done[T]) -> None:
        self._runtime.read(job, done)

    renew = upkeep = upload


class SharedOpener:
    """Opens the shard for the world that asks; the store is all that lasts."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(~seed)
        self.store: SimulatedStore | None = None
        self.probing = False
        self.zombies: list[SimulatedRuntime] = []
        self._runtime: SimulatedRuntime | None = None
        self.fault_share = self._rng.choice((0.0, 0.0, 0.02, 0.15))
        self.cluster = ClusterSettings(
            inline_bytes_max=self._rng.choice((1, 512, 2048, 1 << 16)),
            uploads_max=self._rng.choice((1, 2, 8)),
            run_cache_bytes=self._rng.choice((0, 0, 4096, 1 << 30)),
            block_cache_bytes=self._rng.choice((0, 1024, 1 << 20)),
            block_bytes=self._rng.choice((64, 512, 4096)),
            grace_ms=GRACE_MS,
        )
        self.takes = 0
        self.sabotage: Callable[[SharedOpener], None] | None = None

    def __call__(self, *, disk: SimulatedDisk, runtime: SimulatedRuntime, settings: EngineSettings) -> LocalEngine:
        if self.store is None:
            self.store = SimulatedStore(self._rng, runtime.clock, GRACE_MS)
            if self.sabotage is not None:
                self.sabotage(self)
        store = self.store
        if self.probing:
            store = self.store.copy()
        elif self._runtime is not None and self._runtime is not runtime:
            self.zombies = [*self.zombies, self._runtime][-ZOMBIES_MAX:]
        if not self.probing:
            self._runtime = runtime
        store.fault_share = 0.0
        catalog, objects = SimulatedCatalog(store), SimulatedObjects(store)
        # The lease of the last owner has ended, whatever that owner believes.
        store.shard(SHARD).until_ms = -1
        lanes = SimulatedLanes(runtime, (lambda: None) if self.probing else self._haunt)
        sent = runtime.monotonic()
        claim = catalog.take(SHARD, "simulation", LEASE_MS)
        assert claim is not None
        ownership = LeasedOwnership(
            catalog=catalog, runtime=runtime, lanes=lanes, shard=SHARD, claim=claim, lease_ms=LEASE_MS, sent=sent
        )
        prepared = prepare(
            local=disk,
            settings=settings,
            cluster=self.cluster,
            catalog=catalog,
            objects=objects,
            ownership=ownership,
            claim=claim,
        )
        engine = open_engine(
            prepared=prepared,
            runtime=runtime,
            lanes=lanes,
            settings=settings,
            cluster=self.cluster,
            catalog=catalog,
            objects=objects,
            ownership=ownership,
            limits=SMALL_LIMITS,
        )
        if not self.probing:
            self.takes += 1
            if self._rng.random() < 0.5:
                reap(catalog, objects, SHARD, GRACE_MS)
            store.fault_share = self.fault_share
            self.check(store)
        return engine

    def check(self, store: SimulatedStore) -> None:
        """No name leads nowhere."""
        shard = store.shard(SHARD)
        keys = [group.key for group, _ in shard.groups.values() if group.key is not None]
        for key in [*keys, *(file.key for file in shard.files.values())]:
            assert key in store.content, f"{key} is named and gone"

    def _haunt(self) -> None:
        """Former owners do some of what they had under way; they haunt nobody meanwhile."""
        zombies, self.zombies = self.zombies, []
        left: list[SimulatedRuntime] = []
        for zombie in zombies:
            try:
                for _ in range(self._rng.randrange(ZOMBIE_STEPS_MAX)):
                    if not zombie.step():
                        break
                left.append(zombie)
            except Interrupted:
                continue  # it touched its disk, which is no more
        self.zombies = left


class SharedWorld(World):
    """A world whose probes look at a copy of the store."""

    def probe(self, *, power: bool) -> None:
        opener: Any = self._open_engine
        opener.probing = True
        try:
            super().probe(power=power)
        finally:
            opener.probing = False


def shared_temper(rng: Random) -> Temper:
    """Any world with room on the disk, in one directory."""
    temper = roomy_temper(rng)
    settings = msgspec.structs.replace(temper.settings, wal_directory=None, run_directories=())
    return temper._replace(settings=settings)


def run_shared_seed(seed: int, sabotage: Callable[[SharedOpener], None] | None = None, tail: int = 25) -> Outcome:
    """One history over the shared engine."""
    opener = SharedOpener(seed)
    opener.sabotage = sabotage
    return run_seed(seed, opener, run_merge=run_merge_job, draw=shared_temper, tail=tail, make_world=SharedWorld)
