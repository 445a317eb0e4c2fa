"""What a world is like: limits, policies, and how often each thing happens, drawn from the seed.

Some worlds do one thing all the time, which finds what an even mixture hides.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from mainstem.storage.contract import Flush
from mainstem.storage.local.settings import EngineSettings

RECYCLING_SHARE = 0.03
FULL_DISK_SHARE = 0.03
FULL_KIND = 0.1

Weights = dict[str, int]


class Temper(NamedTuple):
    """What a world is like."""

    settings: EngineSettings
    weights: Weights
    logs: int
    value_bytes: tuple[int, ...]
    records_max: int
    commits_max: int
    appends_max: int
    producers: int
    transactional: bool
    invalid_share: float
    state_share: float
    fan_out_share: float
    actions: int
    steps_max: int
    tight: bool
    """Limits so small that commits are refused as overloaded."""
    full: bool
    """The disk becomes full and is emptied again."""
    early_deletion: bool
    """What is old goes before its time when the disk is nearly full."""
    expiring: bool
    """Silent producers are forgotten soon: none of them repeats anything."""
    lazy_logs: bool
    """Some logs are flushed in intervals or not at all."""
    compacted: bool
    retained: bool
    recovery_interrupts: int
    probe_share: float
    """How often to look, after an action, at what a crash would leave."""


def draw_settings(rng: Random, *, tight: bool, full: bool, expiring: bool, early_deletion: bool) -> EngineSettings:
    """Limits so small that every one of them is reached within a few dozen Commits."""
    # Where it is off it is not named: what is not said must not delete anything.
    marks = {"disk_high_mark": 0.85} if early_deletion else {}
    wal_file_bytes = rng.choice((8, 8, 16, 32)) * 1024
    flush: Flush = rng.choice(("sync", "sync", "sync", "interval", "os"))
    run_directories: tuple[str, ...] = rng.choice(((), (), (), ("data/runs", "fast/runs")))
    return EngineSettings(
        data_directory="data",
        wal_directory=rng.choice((None, None, None, "fast/wal")),
        run_directories=run_directories,
        flush=flush,
        flush_interval_ms=rng.choice((5, 50)),
        flush_interval_bytes=rng.choice((2048, 1 << 20)),
        wal_file_bytes=wal_file_bytes,
        wal_spare_files=rng.choice((1, 2)),
        group_bytes_max=rng.choice((1024, 4096)),
        commit_bytes_max=16 * 1024,
        pending_bytes_max=rng.choice((2048, 6000)) if tight else 1 << 20,
        copy_bytes_max=rng.choice((0, 256, 4096)),
        cache_bytes_max=rng.choice((0, 2048, 8192, 1 << 20)),
        read_bytes_max=rng.choice((1024, 8192, 1 << 20)),
        proof_idle_ms=rng.choice((2, 1000)),
        merge_files_min=rng.choice((1, 1, 2)),
        merge_files_max=rng.choice((1, 2, 4)),
        unmerged_files_max=3 if tight else 10_000,
        tier_runs_max=2,
        run_bytes_max=rng.choice((2048, 8192, 1 << 20)),
        block_bytes=512,
        adopt_share=rng.choice((0.2, 0.8, 1.1)),
        dead_share_max=rng.choice((0.2, 0.5)),
        **marks,
        disk_hard_mark=0.95,
        disk_reserve_bytes=wal_file_bytes if full else 0,
        producer_expiry_ms=rng.choice((5, 500)) if expiring else 86_400_000,
        retention_check_ms=rng.choice((10, 5000)),
    )


def draw_temper(rng: Random) -> Temper:
    """Any world."""
    kind = rng.random()
    if kind < RECYCLING_SHARE:
        return recycling_temper(rng)
    return full_disk_temper(rng) if kind < RECYCLING_SHARE + FULL_DISK_SHARE else mixed_temper(rng)


def roomy_temper(rng: Random) -> Temper:
    """Any world in which the disk never becomes full: for an engine that gives no space back."""
    while (temper := draw_temper(rng)).full:
        pass
    return temper


def mixed_temper(rng: Random) -> Temper:
    """A bit of everything."""
    return _mixed(rng, rng.random())


def full_disk_temper(rng: Random) -> Temper:
    """A disk that is full most of the time, and whose logs have a retention that takes little by itself."""
    temper = _mixed(rng, FULL_KIND)
    weights = temper.weights | {"trim": 2, "maintain": 4, "stop": 2, "fill": 4, "empty": 2}
    return temper._replace(weights=weights, retained=rng.random() < 0.7)


def _mixed(rng: Random, kind: float) -> Temper:
    tight = kind < 0.06
    full = 0.06 <= kind < 0.12
    early_deletion = full and rng.random() < 0.3
    expiring = 0.12 <= kind < 0.17
    weights: Weights = {
        "commit": 30,
        "read": rng.choice((2, 10)),
        "offset_at": rng.choice((0, 3)),
        "load": rng.choice((0, 2)),
        "watch": rng.choice((0, 3)),
        "lease": rng.choice((0, 0, 2)),
        "alter": rng.choice((0, 1, 3)),
        "trim": rng.choice((0, 0, 2)),
        "maintain": rng.choice((0, 2, 6)),
        "steps": rng.choice((5, 20)),
        "drain": rng.choice((1, 5)),
        "rest": rng.choice((0, 1, 3)),
        "interrupt": rng.choice((0, 1, 1, 3)),
        "stop": rng.choice((0, 1, 1)),
        "close": rng.choice((0, 0, 1)),
        "fault": rng.choice((0, 0, 1, 2)),
        "fill": 2 if full else 0,
        "empty": 1 if full else 0,
    }
    return Temper(
        settings=draw_settings(rng, tight=tight, full=full, expiring=expiring, early_deletion=early_deletion),
        weights=weights,
        logs=rng.choice((1, 2, 4)),
        value_bytes=rng.choice(((10,), (10, 10, 300), (10, 300, 1500), (10, 200, 3000), (200,))),
        records_max=rng.choice((1, 3, 12)),
        commits_max=rng.choice((1, 2, 5)),
        appends_max=rng.choice((1, 1, 3)),
        producers=rng.choice((0, 1, 3, 3)),
        transactional=rng.random() < 0.5,
        invalid_share=rng.choice((0.0, 0.1, 0.3)),
        state_share=rng.choice((0.0, 0.2, 0.6)),
        fan_out_share=rng.choice((0.0, 0.1, 0.7)),
        actions=rng.choice((40, 80, 120)),
        steps_max=rng.choice((0, 3, 12)),
        tight=tight,
        full=full,
        early_deletion=early_deletion,
        expiring=expiring,
        lazy_logs=rng.random() < 0.3,
        compacted=rng.random() < 0.25,
        retained=rng.random() < 0.3,
        recovery_interrupts=rng.choice((0, 0, 1)),
        probe_share=rng.choice((0.0, 0.02, 0.1)),
    )


def recycling_temper(rng: Random) -> Temper:
    """Nothing but what leaves good old groups lying about in files that are used again; see `_do_recycle`."""
    temper = mixed_temper(rng)
    settings = EngineSettings(
        data_directory="data",
        flush="os",
        wal_file_bytes=8 * 1024,
        wal_spare_files=1,
        group_bytes_max=512,
        commit_bytes_max=16 * 1024,
        merge_files_min=1,
        merge_files_max=2,
        adopt_share=1.1,
        block_bytes=512,
        disk_reserve_bytes=0,
        proof_idle_ms=10_000_000,
    )
    return temper._replace(
        settings=settings,
        weights={"recycle": 1},
        logs=1,
        records_max=1,
        commits_max=1,
        appends_max=1,
        producers=0,
        transactional=False,
        invalid_share=0.0,
        state_share=0.0,
        fan_out_share=0.0,
        actions=3,
        steps_max=0,
        tight=False,
        full=False,
        early_deletion=False,
        expiring=False,
        lazy_logs=False,
        compacted=False,
        retained=False,
        recovery_interrupts=0,
        probe_share=0.0,
    )
