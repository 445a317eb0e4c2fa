"""The engine's internal limits, made so small that a history of a few dozen Commits meets every one of them."""

from __future__ import annotations

from mainstem.storage.local.limits import EngineLimits, MergeLimits, ReadLimits, UpkeepLimits
from mainstem.storage.sequencer.limits import SequencerLimits

SMALL_LIMITS = EngineLimits(
    sequencer=SequencerLimits(halved_callers_min=2),
    joined_bytes_max=200,
    read=ReadLimits(stretches_per_read_max=4, step_bytes=1000, views_max=2, cache_gone_max=4),
    merge=MergeLimits(
        large_batch_bytes=300,
        heads_batch_bytes_min=150,
        heads_look_bytes=64,
        run_chunk_bytes=1500,
        compacted_keys_max=3,
        shared_bytes_min=200,
        key_table_entries_max=8,
        write_bytes=2048,
        sync_stride_bytes=4096,
        state_chunk_bytes=200,
    ),
    upkeep=UpkeepLimits(
        retained_logs_per_turn=2,
        trims_per_commit=1,
        dropped_tails_per_turn=2,
        slots_per_turn=2,
        sharing_slots_per_turn=2,
        state_runs_max=3,
        compaction_check_ms=20,
    ),
)
