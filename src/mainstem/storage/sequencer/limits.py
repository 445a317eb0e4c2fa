"""Limits of a sequencer that no operator needs to set."""

from __future__ import annotations

from typing import NamedTuple


class SequencerLimits(NamedTuple):
    """When waiting callers are split into two groups."""

    halved_callers_min: int = 32
    """From this many waiting callers on, each round is two groups: one is synced while the callers of the other are answered and
    commit again. Fewer callers are better off with one sync for all of them."""
    half_entries_max: int = 96
    """Where half of the callers bring more batches than these, the disk waits for them, and gains nothing from halves."""
    under_way_max: int = 2
    """Groups submitted at a time: one at the disk, and one that it finds next. A store that is far away takes more."""
