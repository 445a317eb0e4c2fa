"""Limits of the engine on local disk that no operator needs to set: sizes of steps, buffers and tables.

They are fields, not constants, so that a test can make them small enough to be met.
"""

from __future__ import annotations

import msgspec

from mainstem.storage.sequencer.limits import SequencerLimits


class ReadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of reads, and of what is kept for them."""

    stretches_per_read_max: int = 4096
    step_bytes: int = 4 << 20
    """Read from a file at a time."""
    views_max: int = 1_000
    """Logs whose runs are remembered. To look them up again costs microseconds; to forget very many at once holds the loop."""
    cache_gone_max: int = 1024
    """Entries of the cache that may be gone before its lists are cut."""


class MergeLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one job of the merge process. They travel with the job."""

    large_batch_bytes: int = 1 << 16
    """A batch of this size is read as well from where it is: sorting it would copy much and gain nothing."""
    heads_batch_bytes_min: int = 1 << 14
    """Where the batches of a group are smaller than this, on average, it is quicker to read the whole file than heads alone."""
    heads_look_bytes: int = 2048
    """Read at a time while only heads are read: a frame, and most often its head."""
    run_chunk_bytes: int = 4 << 20
    """Most that is read of a run at once, unless one block is larger."""
    compacted_keys_max: int = 2_000_000
    """Keys in memory at a time, about 140 bytes each."""
    shared_bytes_min: int = 1024
    """Less than this, among batches of the log's own, is copied: an entry in the index takes 41 bytes, and its block a read."""
    key_table_entries_max: int = 1 << 20
    """Entries sorted at a time while a run is written; a log with more keys has several tables."""
    write_bytes: int = 1 << 20
    """Gathered for one write to a run."""
    sync_stride_bytes: int = 8 << 20
    """A run is synced after each of these: one large sync at the end would delay the syncs of the commit thread."""
    state_chunk_bytes: int = 1 << 18
    """About the size of a chunk of a state run; one with a larger item is larger."""


class UpkeepLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of maintenance: how much it does in one turn of the loop, and how often it looks."""

    retained_logs_per_turn: int = 20
    trims_per_commit: int = 20
    """Each trimmed log is measured anew when the commit is shown: few at a time, so that the loop is not held."""
    dropped_tails_per_turn: int = 500
    slots_per_turn: int = 5_000
    """Logs of a run whose dead bytes are counted."""
    sharing_slots_per_turn: int = 500
    """The same, of a run in which logs share blocks."""
    state_runs_max: int = 8
    """From this many state runs on they are joined: a start would read much of the state several times."""
    compaction_check_ms: int = 5_000
    """How often logs are looked at for compaction though no run has changed."""


class EngineLimits(msgspec.Struct, frozen=True, kw_only=True):
    """All of them."""

    sequencer: SequencerLimits = SequencerLimits()
    joined_bytes_max: int = 4096
    """Batches of a group that are smaller, on average, are joined before writing: a vector of many small pieces costs more than
    one copy."""
    read: ReadLimits = ReadLimits()
    merge: MergeLimits = MergeLimits()
    upkeep: UpkeepLimits = UpkeepLimits()
