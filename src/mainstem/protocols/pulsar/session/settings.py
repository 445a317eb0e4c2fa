"""What Pulsar clients may do and cost. The defaults are Pulsar's where it has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainstem.model.bounds import Positive


class PulsarSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of the binary protocol."""

    anybody_from_anywhere: bool = False
    """Clients that do not say who they are may come from elsewhere too; else from this machine alone."""
    cluster_name: str = "standalone"
    """The one cluster, as administrators name it."""
    message_bytes_max: Annotated[int, msgspec.Meta(ge=1_024, le=128 << 20)] = 5 << 20
    """Largest message or batch, as it is sent."""
    entry_cache_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 64 << 20
    """What was published is kept so long in memory as it was sent, for consumers that keep up."""
    topic_auto_creation: bool = True
    """Whether a topic comes with its first use."""
    producers_per_connection_max: Positive = 10_000
    """Producers of one connection; as many consumers may be on it."""
    unacknowledged_max: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 50_000
    """Messages that one consumer of a shared subscription may hold; it is given no more above that. 0: no limit."""


class AdminSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of the administration over HTTP."""

    anybody_from_anywhere: bool = False
    """Clients that do not say who they are may come from elsewhere too; else from this machine alone."""
    head_bytes_max: Positive = 16 << 10
    """Request line and headers."""
    body_bytes_max: Positive = 1 << 20
    """Content of one request."""
    request_timeout_ms: Positive = 30_000
    """From the first byte of a request to its last."""
