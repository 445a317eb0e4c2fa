"""Removes objects that nobody needs: garbage that the catalog knows of, and uploads that were never named.

It cannot meet an upload: an object is named within half of the grace of its making or never, and this waits for all of it. So it
does no harm even when the shard has another owner by now.
"""

from __future__ import annotations

from mainstem.storage.shared.ports import Catalog, ObjectStore, created_ms_of

KEYS_PER_REQUEST = 500


def reap(catalog: Catalog, objects: ObjectStore, shard: str, grace_ms: int) -> int:
    """One pass; answers how many objects went. Blocks."""
    garbage = catalog.garbage(shard, grace_ms)
    for first in range(0, len(garbage), KEYS_PER_REQUEST):
        keys = garbage[first : first + KEYS_PER_REQUEST]
        objects.delete(keys)
        catalog.forget_garbage(shard, keys)
    orphans = _orphans(catalog, objects, shard, grace_ms)
    for first in range(0, len(orphans), KEYS_PER_REQUEST):
        objects.delete(orphans[first : first + KEYS_PER_REQUEST])
    return len(garbage) + len(orphans)


def _orphans(catalog: Catalog, objects: ObjectStore, shard: str, grace_ms: int) -> list[str]:
    """Uploads without a name that are older than the grace by both clocks, the catalog's and the object store's."""
    oldest_ms = catalog.now_ms() - grace_ms
    old = [
        listed.key
        for listed in objects.list(f"{shard}/")
        if created_ms_of(listed.key) < oldest_ms and listed.modified_ms < oldest_ms
    ]
    # Named after the listing: what is old and has no name now will never have one.
    named = catalog.named(shard) if old else set()
    return [key for key in old if key not in named]
