"""A message on its way to queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue


class Put(NamedTuple):
    """A message to be published, where it cannot be at once."""

    queues: Sequence[Queue]
    headers: bytes
    value: bytes | memoryview
    key: bytes | None = None
    ttl_ms: int = -1
    priority: int = 0
