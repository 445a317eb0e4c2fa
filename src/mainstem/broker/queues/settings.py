"""What can be set for queues."""

from __future__ import annotations

import msgspec

from mainstem.model.bounds import NotNegative


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """For all queues that do not say otherwise themselves."""

    retention_ms: NotNegative = 600_000
    """How long acknowledged messages stay, so that a queue can be rewound."""
    retention_bytes: NotNegative = 256 << 20
    """How much of a queue stays at most, once it is acknowledged."""
    window_bytes_max: NotNegative = 256 << 20
    """Waiting messages that all queues together hold in memory; the rest is read when it is wanted."""
