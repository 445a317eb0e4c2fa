"""Moves a log between a data directory and a shard, as a command wants it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from mainstem.model.errors import MainstemError
from mainstem.server.settings import Settings
from mainstem.storage.local.directories import IDENTITY
from mainstem.storage.shared.database_identity import check_database
from mainstem.storage.shared.object_storage import S3Objects
from mainstem.storage.shared.postgresql import PostgresCatalog
from mainstem.storage.shared.relocation import Moved, Relocation


class NotMoved(Exception):
    """Nothing was moved, or not all of it."""


def move(settings: Settings, tell: Callable[[str], None], *, into_cluster: bool) -> Moved:
    """Copy the log of the data directory into the shard, or the other way. Raises NotMoved."""
    cluster = settings.cluster
    root = Path(settings.storage.data_directory).absolute()
    storage = msgspec.structs.replace(settings.storage, data_directory=str(root))
    if into_cluster and not (root / IDENTITY).exists():
        raise NotMoved(f"{root} is not a data directory of Mainstem")
    try:
        catalog = PostgresCatalog(cluster.database, cluster.grace_ms)
        try:
            objects = S3Objects(cluster.store)
            catalog.make_tables(cluster.shard)
            objects.check(cluster.shard)
            check_database(objects, cluster.shard, *catalog.system())
            relocation = Relocation(storage, cluster, catalog, objects, tell)
            return relocation.into_cluster() if into_cluster else relocation.to_directory()
        finally:
            catalog.close()
    except (MainstemError, OSError) as error:
        raise NotMoved(str(error)) from error
