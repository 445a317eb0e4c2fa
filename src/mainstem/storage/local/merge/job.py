"""What the broker tells the merge process to do, and what it hears back.

A job reads sealed files only and writes files nobody reads yet. All decisions that need the broker's state (what is dead,
which directory has room) are made before, and travel with it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from mainstem.storage.local.limits import MergeLimits


class WalInput(msgspec.Struct, array_like=True):
    """A sealed file of the write-ahead log."""

    path: str
    generation: int
    first: int
    last: int
    """Groups in it."""
    end: int
    """Position after its last group."""


class RunInput(msgspec.Struct, array_like=True):
    """A live run."""

    path: str
    id: int


class CompactionRule(msgspec.Struct, array_like=True):
    """How one log is compacted by key."""

    tombstone_retention_ms: int
    before_ms: int
    """Records younger than this stay as they are (minimum lag)."""
    stable: int
    """Records from here on stay as they are (open transactions)."""
    aborted: list[tuple[int, int, int]] = []
    """(producer, first, last): their records go."""


class MergeJob(msgspec.Struct):
    """One job: WAL files into runs, or runs into fewer or smaller runs."""

    kind: Literal["wal", "runs"]
    now_ms: int
    wal: list[WalInput] = []
    runs: list[RunInput] = []
    """Oldest first; for one log, every offset of an earlier one is below those of a later one, or they do not overlap."""
    starts: dict[int, int] = {}
    """Log -> start, for logs whose start is not 0: what is below is dead."""
    deleted: list[int] = []
    """Logs that no longer exist: all of theirs is dead."""
    classes: dict[int, int] = {}
    """Log -> retention class, where not 0. Classes never share a run."""
    key_indexed: list[int] = []
    limits: MergeLimits = MergeLimits()
    compact: dict[int, CompactionRule] = {}
    """Logs to be compacted by key in this job (kind runs): all their runs are among the inputs."""
    output_directories: list[str] = []
    """In turn, best first."""
    first_run_id: int = 0
    """Outputs are numbered from here."""
    output_bytes_max: int = 1 << 62
    """What the runs may have together. Beyond it the job ends as on a full disk: the rest is not for merges."""
    tier: int = 0
    run_bytes_max: int = 1 << 30
    block_bytes: int = 1 << 16
    adopt_share: float = 0.8
    adopt: bool = True
    """Whether WAL files may become runs as they are (same file system)."""
    state_directory: str | None = None
    """Kind wal: where the state run of these files goes."""


class StateJob(msgspec.Struct):
    """Join consecutive state runs into one."""

    inputs: list[str]
    """Oldest first."""
    directory: str
    now_ms: int
    producer_expiry_ms: int
    limits: MergeLimits = MergeLimits()


class RunOutput(msgspec.Struct, array_like=True):
    """A run that was written, synced and named."""

    id: int
    path: str
    retention_class: int
    tier: int
    bytes: int
    adopted: int | None = None
    """Generation of the WAL file that became this run; it still has its old path."""


class Damage(msgspec.Struct, array_like=True):
    """Stored bytes that failed their check; the job did nothing."""

    file: str
    position: int
    what: str
    logs: list[int]


class MergeOutcome(msgspec.Struct):
    """What a job wrote. Exactly one of the two errors may be set; then nothing counts."""

    runs: list[RunOutput] = []
    state_run: str | None = None
    records_removed: int = 0
    damage: Damage | None = None
    error: str | None = None
    """An operating-system error, such as a full disk; the job may be tried again."""
    no_space: bool = False


Job = MergeJob | StateJob


class JobEnvelope(msgspec.Struct):
    """Exactly one is set."""

    merge: MergeJob | None = None
    state: StateJob | None = None


_encoder = msgspec.msgpack.Encoder()
_job_decoder = msgspec.msgpack.Decoder(JobEnvelope)
_outcome_decoder = msgspec.msgpack.Decoder(MergeOutcome)


def encode_job(job: Job) -> bytes:
    """For the merge worker."""
    return _encoder.encode(JobEnvelope(merge=job) if isinstance(job, MergeJob) else JobEnvelope(state=job))


def decode_job(data: bytes) -> Job:
    """In the merge process."""
    envelope = _job_decoder.decode(data)
    job = envelope.merge or envelope.state
    assert job is not None
    return job


def encode_outcome(outcome: MergeOutcome) -> bytes:
    """In the merge process."""
    return _encoder.encode(outcome)


def decode_outcome(data: bytes) -> MergeOutcome:
    """From the merge worker."""
    return _outcome_decoder.decode(data)
