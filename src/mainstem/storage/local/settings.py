"""Settings of the engine on local disk. Every buffer, queue and file has its limit here."""

from __future__ import annotations

import msgspec

from mainstem.storage.contract import Flush

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be set; the server offers each as `storage.<name>`."""

    data_directory: str
    """Where everything is, unless another directory is named below."""
    wal_directory: str | None = None
    """A directory of its own for the write-ahead log, as on a small fast disk. Default: DATA_DIRECTORY/wal."""
    run_directories: tuple[str, ...] = ()
    """Directories for merged data, filled by free space. Default: DATA_DIRECTORY/runs."""

    flush: Flush = "sync"
    """When a commit is answered: after a sync, or after the write with syncs in intervals, or with none."""
    flush_interval_ms: int = 1_000
    """With `interval`: sync at the latest this long after a write."""
    flush_interval_bytes: int = 16 * MIB
    """With `interval`: sync at the latest after this many bytes."""

    wal_file_bytes: int = 64 * MIB
    """Size of one file of the write-ahead log; preallocated and recycled."""
    wal_spare_files: int = 2
    """Prepared files kept for the next rolls; one of them is the reserve for state on a full disk."""
    group_bytes_max: int = 4 * MIB
    """What is written with one sync, about; a larger commit is a group of its own."""
    commit_bytes_max: int = 32 * MIB
    """Largest commit; never split."""
    pending_bytes_max: int = 256 * MIB
    """Bytes that may wait to be written; above it commits are refused as overloaded."""
    copy_bytes_max: int = 32 * KIB
    """Batches up to this size are copied out of the receive buffer, so that a small one does not pin a large buffer."""
    cache_bytes_max: int = 256 * MIB
    """Memory for the newest batches."""
    read_bytes_max: int = 16 * MIB
    """Most that one read takes from disk, whatever the reader asks for (one batch is always read whole)."""
    proof_idle_ms: int = 1_000
    """After so long without commits, the last group is proven durable by an empty one."""

    merge_files_min: int = 1
    """Sealed files at which a merge begins."""
    merge_files_max: int = 4
    """Sealed files that one merge takes."""
    unmerged_files_max: int = 64
    """Sealed files that may wait; above it commits are refused as overloaded until merging has caught up."""
    tier_runs_max: int = 8
    """Runs of one size class before they are merged into one of the next."""
    run_bytes_max: int = 1 * GIB
    """Size at which a merge begins another run."""
    block_bytes: int = 64 * KIB
    """About how much of one log one entry of a run's index covers."""
    adopt_share: float = 0.8
    """A file of which this share is large batches becomes a run as it is; above 1: never."""
    dead_share_max: float = 0.5
    """A run of which more than this is dead is rewritten."""

    disk_high_mark: float | None = None
    """Share of the disk in use above which the oldest records go before their retention ends, read or not. None: never."""
    disk_hard_mark: float = 0.95
    """Share of the disk in use above which appends are refused: the rest is the reserve."""
    disk_reserve_bytes: int = 64 * MIB
    """Smallest reserve: free space that only a start, deletion and the merges that give space back may use."""
    producer_expiry_ms: int = 86_400_000
    """After so long a silent producer is forgotten."""
    retention_check_ms: int = 5_000
    """How often retention is looked at."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value < SMALLEST.get(name, 0):
                raise ValueError(f"{name} must be at least {SMALLEST.get(name, 0)}, not {value}")
        for name in ("dead_share_max", "disk_high_mark", "disk_hard_mark"):
            share = getattr(self, name)
            if share is not None and not 0 < share <= 1:
                raise ValueError(f"{name} is a share, above 0 and at most 1: {share}")
        if self.wal_file_bytes + self.commit_bytes_max + self.group_bytes_max > WAL_FILE_BYTES_LIMIT:
            raise ValueError(f"wal_file_bytes is too large: {self.wal_file_bytes}")

    def reserve_bytes(self, total: int) -> int:
        """The free space that appends leave alone on a file system of this size."""
        return max(self.disk_reserve_bytes, int((1 - self.disk_hard_mark) * total))


SMALLEST = {
    "wal_file_bytes": 4 * KIB,
    "wal_spare_files": 1,
    "group_bytes_max": 1,
    "commit_bytes_max": 1,
    "pending_bytes_max": 1,
    "read_bytes_max": 1,
    "proof_idle_ms": 1,
    "merge_files_min": 1,
    "merge_files_max": 1,
    "unmerged_files_max": 1,
    "tier_runs_max": 2,
    "run_bytes_max": 1,
    "block_bytes": 1,
}
WAL_FILE_BYTES_LIMIT = 1 << 32
"""A position in a file has 32 bits."""
