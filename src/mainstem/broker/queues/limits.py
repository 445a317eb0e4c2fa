"""Sizes that queues keep to: not settings, but tests make them small, so that a few messages meet every one."""

from __future__ import annotations

import msgspec


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """For all queues of a broker."""

    window_messages_max: int = 8_192
    """Ready messages that a queue with consumers holds in memory. The queue reads the others when it needs them."""
    window_messages_idle: int = 256
    """The same for a queue without consumers."""
    window_messages_low: int = 1_024
    """A queue fills a window with fewer messages."""
    read_bytes: int = 256 << 10
    """What a queue reads in one call while its messages are small. The engine returns a first batch whole."""
    batch_bytes_max: int = 512 << 10
    """A batch that is larger takes no more records."""
    draft_bytes_max: int = 4 << 20
    """A draft that is larger is committed before the turn ends."""
    fan_lanes_max: int = 4_096
    """Lanes that share one stored batch: more would not fit into one commit, and would keep the loop too long."""
