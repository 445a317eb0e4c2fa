"""A shard that was taken becomes an engine: hydrate, recover, open.

The first half blocks and is done in a thread, while the lease is renewed; the second half is done on the engine's thread.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from mainstem.storage.local.directories import Directories
from mainstem.storage.local.engine import Beginning, LocalEngine, find
from mainstem.storage.local.limits import EngineLimits
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.runtime.disk import Disk
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.shared.block_cache import BlockCache
from mainstem.storage.shared.hydration import hydrate
from mainstem.storage.shared.lanes import Lanes
from mainstem.storage.shared.ownership import LeasedOwnership
from mainstem.storage.shared.ports import Catalog, Claim, ObjectStore
from mainstem.storage.shared.settings import ClusterSettings
from mainstem.storage.shared.shared_disk import SharedDisk
from mainstem.storage.shared.shipped_log import ShippedLog

log_output = logging.getLogger("mainstem.storage")


class Prepared(NamedTuple):
    """A local directory that holds what the shard's last owner had shipped."""

    disk: SharedDisk
    found: Beginning


def prepare(
    *,
    local: Disk,
    settings: EngineSettings,
    cluster: ClusterSettings,
    catalog: Catalog,
    objects: ObjectStore,
    ownership: LeasedOwnership,
    claim: Claim,
) -> Prepared:
    """Bring the shard here. Blocks; raises DiskError kinds, StoreUnreachable, OSError."""
    directories = Directories(settings)
    shard = ownership.shard
    count = hydrate(disk=local, directories=directories, catalog=catalog, objects=objects, shard=shard, claim=claim)
    disk = SharedDisk(
        local=local,
        root=directories.root,
        catalog=catalog,
        objects=objects,
        ownership=ownership,
        blocks=BlockCache(objects, cluster.block_cache_bytes, cluster.block_bytes),
        block_bytes=cluster.block_bytes,
        copies_bytes_max=cluster.run_cache_bytes,
    )
    found = find(disk, settings, claim.generation)
    log_output.info("shard %s: term %d begins with %d shipped groups", shard, claim.epoch, count)
    return Prepared(disk, found)


def open_engine(
    *,
    prepared: Prepared,
    runtime: Runtime,
    lanes: Lanes,
    settings: EngineSettings,
    cluster: ClusterSettings,
    catalog: Catalog,
    objects: ObjectStore,
    ownership: LeasedOwnership,
    limits: EngineLimits = EngineLimits(),  # noqa: B008  # frozen
) -> LocalEngine:
    """The engine of the shard's owner."""
    shipping = ShippedLog(
        catalog=catalog,
        objects=objects,
        runtime=runtime,
        lanes=lanes,
        ownership=ownership,
        inline_bytes_max=cluster.inline_bytes_max,
    )
    sequencer = limits.sequencer._replace(under_way_max=cluster.uploads_max)
    return LocalEngine.open(
        disk=prepared.disk,
        runtime=runtime,
        settings=settings,
        limits=msgspec.structs.replace(limits, sequencer=sequencer),
        ownership=ownership,
        shipping=shipping,
        found=prepared.found,
    )
