"""Which database a shard belongs to, kept in the object store: one that a fail-over has left behind knows nothing of it.

PostgreSQL begins a new timeline with every promotion. A former primary that comes back still takes writes, on its old timeline,
and by its own tables all is well. The object store is the witness that it is not.
"""

from __future__ import annotations

import json

from mainstem.model.errors import CorruptData, DiskError
from mainstem.storage.shared.ports import ObjectStore

KEY = "database"
"""It names no time, so the reaper leaves it alone."""


def check_database(objects: ObjectStore, shard: str, identity: str, timeline: int) -> None:
    """Refuse a database that is not the one that was used last. Raises DiskError, StoreUnreachable."""
    key = f"{shard}/{KEY}"
    try:
        known = json.loads(objects.get(key))
        seen = (str(known["identity"]), int(known["timeline"]))
    except CorruptData:
        seen = (identity, 0)
    except (ValueError, KeyError, TypeError) as error:
        raise DiskError(f"{key} in the object store cannot be read") from error
    if identity != seen[0]:
        raise DiskError(
            f"the objects of shard {shard} belong to another database (system {seen[0]}) than the one that answers "
            f"(system {identity}); where it was restored on purpose, remove the object {key} first"
        )
    if timeline < seen[1]:
        raise DiskError(
            f"a PostgreSQL of the older timeline {timeline} answers; timeline {seen[1]} was used last: "
            "a former primary must not be used again"
        )
    if timeline > seen[1]:
        objects.put(key, (json.dumps({"identity": identity, "timeline": timeline}).encode(),))
