"""The engine's internal limits, made so small that a history of a few dozen Commits meets every one of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType

from mainstem.storage.local.merge import compaction, run_source, wal_merge
from mainstem.storage.local.read import file_set, reader, tail
from mainstem.storage.local.runs import block_sharing as sharing
from mainstem.storage.local.runs import key_index, run_writer, shared_entries, state_run
from mainstem.storage.local.upkeep import compactions, merges, retention_pass
from mainstem.storage.local.wal import group_encoding, group_heads
from mainstem.storage.sequencer import ledger_engine

LIMITS: list[tuple[ModuleType, str, int]] = [
    (compaction, "KEYS_MAX", 3),
    (compactions, "CHECK_MS", 20),
    (file_set, "VIEWS_MAX", 2),
    (group_encoding, "JOINED_BYTES_MAX", 200),
    (group_heads, "BATCH_BYTES_MIN", 150),
    (group_heads, "LOOK_BYTES", 64),
    (key_index, "TABLE_ENTRIES_MAX", 8),
    (ledger_engine, "HALVED_CALLERS_MIN", 2),
    (merges, "LOGS_PER_TURN", 2),
    (merges, "SHARING_SLOTS_PER_TURN", 2),
    (merges, "SLOTS_PER_TURN", 2),
    (merges, "STATE_RUNS_MAX", 3),
    (reader, "STRETCHES_PER_READ_MAX", 4),
    (reader, "READ_STEP_BYTES", 1000),
    (retention_pass, "LOGS_PER_TURN", 2),
    (retention_pass, "TRIMS_PER_COMMIT", 1),
    (run_source, "CHUNK_BYTES", 1500),
    (run_writer, "WRITE_BYTES", 2048),
    (run_writer, "SYNC_STRIDE_BYTES", 4096),
    (shared_entries, "SHARED_BYTES_MIN", 200),
    (sharing, "SHARED_BYTES_MIN", 200),
    (state_run, "CHUNK_BYTES", 200),
    (tail, "CACHE_GONE_MAX", 4),
    (wal_merge, "LARGE_BATCH_BYTES", 300),
]


@contextlib.contextmanager
def small_limits() -> Iterator[None]:
    """Within it. A limit that was renamed is an error here, not one that is silently never met."""
    before = [getattr(module, name) for module, name, _ in LIMITS]
    for module, name, value in LIMITS:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(LIMITS, before, strict=True):
            setattr(module, name, value)
