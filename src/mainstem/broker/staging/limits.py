"""Sizes that staging keeps to: not settings, but tests make them small."""

from __future__ import annotations

import msgspec


class StageLimits(msgspec.Struct, frozen=True, kw_only=True):
    """For all stages of a broker."""

    publish_bytes_max: int = 8 << 20
    """What one commit publishes; a larger batch is published in parts, under a transaction."""
    copy_bytes_max: int = 4 << 20
    """What one part copies: little enough that other work does not wait for it."""
    read_bytes: int = 4 << 20
    """What one read of a stage returns."""
    scheduled_bytes_max: int = 16 << 20
    """What one batch may schedule: it is one commit, which carries other bytes too."""
