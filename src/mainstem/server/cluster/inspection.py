"""Looks at a cluster from outside, as commands want them: by its database alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mainstem.model.errors import MainstemError
from mainstem.storage.shared.ports import ShardStatus
from mainstem.storage.shared.postgresql import PostgresCatalog
from mainstem.storage.shared.settings import ClusterSettings

POLL_SECONDS = 0.1


class NotAnswered(Exception):
    """The cluster cannot be asked, or does not do what it was asked."""


@contextmanager
def asked(cluster: ClusterSettings) -> Iterator[PostgresCatalog]:
    """The catalog, for a moment. Raises NotAnswered."""
    try:
        catalog = PostgresCatalog(cluster.database, cluster.grace_ms)
        try:
            yield catalog
        finally:
            catalog.close()
    except MainstemError as error:
        raise NotAnswered(str(error)) from error


def describe(cluster: ClusterSettings) -> list[dict[str, Any]]:
    """All shards, and the brokers of each."""
    with asked(cluster) as catalog:
        return [_row(status, catalog.brokers(status.shard)) for status in catalog.status()]


def _row(status: ShardStatus, brokers: dict[str, tuple[int, int]]) -> dict[str, Any]:
    is_owned = status.left_ms > 0
    return {
        "shard": status.shard,
        "term": status.epoch,
        "owner": status.owner if is_owned else None,
        "lease_left_ms": max(0, status.left_ms),
        "addresses": status.addresses if is_owned else {},
        "standbys": sorted(name for name in brokers if not is_owned or name != status.owner),
        "unmerged_groups": status.groups,
        "files": status.files,
        "hands_over": status.hands_over,
    }


def hand_over(cluster: ClusterSettings, seconds: float) -> tuple[str, float]:
    """Have the owner let its shard go to a standby; answers the new owner and how long that took. Raises NotAnswered."""
    shard = cluster.shard
    with asked(cluster) as catalog:
        before = _status_of(catalog, shard)
        if before is None or before.left_ms <= 0:
            raise NotAnswered(f"nobody owns shard {shard}")
        if not any(name != before.owner for name in catalog.brokers(shard)):
            raise NotAnswered(f"no other broker of shard {shard} stands by")
        begun = time.monotonic()
        catalog.ask_hand_over(shard)
        while time.monotonic() - begun < seconds:
            now = _status_of(catalog, shard)
            # It serves once it has said where.
            if now is not None and now.epoch > before.epoch and now.addresses and now.left_ms > 0:
                return now.owner, time.monotonic() - begun
            time.sleep(POLL_SECONDS)
    raise NotAnswered(f"shard {shard} was not handed over within {seconds:.0f} s")


def _status_of(catalog: PostgresCatalog, shard: str) -> ShardStatus | None:
    return next((status for status in catalog.status() if status.shard == shard), None)
