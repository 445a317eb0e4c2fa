"""Settings of a shared store. The server offers each as `cluster.<name>`."""

from __future__ import annotations

import re

import msgspec

from mainstem.model.bounds import Positive
from mainstem.storage.local.settings import GIB, KIB, MIB

SHARD_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One shard over PostgreSQL and object storage. Without `database` a broker stands alone."""

    database: str = ""
    """Address of PostgreSQL (`postgresql://...`); several hosts may be named. Empty: this broker stands alone."""
    store: str = ""
    """Bucket and prefix of the object store (`s3://BUCKET/PREFIX`); endpoint and credentials come from the AWS variables."""
    shard: str = "main"
    """Name of the shard: brokers with the same database and shard take turns."""
    lease_ms: Positive = 10_000
    """How long an owner that is not heard of keeps its shard. A dead one is replaced after this time."""
    inline_bytes_max: Positive = 64 * KIB
    """Groups up to this size go into PostgreSQL as they are; larger ones become objects."""
    uploads_max: Positive = 8
    """Groups under way at a time, and uploads of groups."""
    run_cache_bytes: int = 16 * GIB
    """Disk space for copies of merged data; above it the oldest copies go, and are read from the object store."""
    block_cache_bytes: int = 128 * MIB
    """Memory for blocks that were read from the object store."""
    block_bytes: Positive = 1 * MIB
    """What is read from the object store at once, at least; several times that where history is read."""
    grace_ms: Positive = 3_600_000
    """How long an object that is no longer named stays. An upload that takes more than half of it is made again."""

    def __post_init__(self) -> None:
        if bool(self.database) != bool(self.store):
            raise ValueError("a cluster needs both: cluster.database and cluster.store")
        if self.database and not self.database.startswith(("postgresql://", "postgres://")):
            raise ValueError("cluster.database must begin with postgresql://")
        if self.store and not re.fullmatch(r"s3://[^/]+(/.*)?", self.store):
            raise ValueError("cluster.store must be s3://BUCKET or s3://BUCKET/PREFIX")
        if not SHARD_NAME.fullmatch(self.shard):
            raise ValueError("cluster.shard may have up to 63 lower-case letters, digits, '.', '_' and '-'")
        if self.run_cache_bytes < 0 or self.block_cache_bytes < 0:
            raise ValueError("sizes of caches must not be negative")

    @property
    def is_on(self) -> bool:
        """Whether this broker shares its store."""
        return bool(self.database)
