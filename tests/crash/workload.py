"""What writer and verifier agree on: logs, settings, and what a record says about itself.

Every writing task numbers its Commits 1, 2, 3 ... over all cycles. Commit n appends a record to the task's own log and one to
a log shared by all, and sets the task's state to n: so after any crash the three must agree.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from mainstem.storage.contract import Append, Commit, CreateLog, Mutation
from mainstem.storage.local.settings import EngineSettings
from mainstem.wire.record_batch import encode_batch

TASKS = 40
"""Enough that groups are handed over behind others."""
IDEMPOTENT_TASKS = 12
"""Tasks below this number send with a producer id, and repeat batches."""
SHARED_LOG = 100
SCOPE = "crash"
VALUE_BYTES = (20, 20, 300, 3000, 8_000)


class Written(NamedTuple):
    """An acknowledged Commit: task, number, offset in the task's own log, offset in the shared one."""

    task: int
    number: int
    own_offset: int
    shared_offset: int


def settings_for(directory: str) -> EngineSettings:
    """Small files, so that rolling, merging and recycling happen all the time."""
    return EngineSettings(
        data_directory=directory,
        wal_file_bytes=256 * 1024,
        group_bytes_max=64 * 1024,
        block_bytes=4096,
        tier_runs_max=3,
        run_bytes_max=1 << 20,
        cache_bytes_max=64 * 1024,
        proof_idle_ms=50,
        disk_reserve_bytes=0,
        disk_hard_mark=1.0,
    )


def own_log(task: int) -> int:
    """The log that only this task writes to."""
    return 1 + task


def all_logs() -> list[int]:
    """Every log there is."""
    return [*(own_log(task) for task in range(TASKS)), SHARED_LOG]


def creations() -> list[CreateLog]:
    """What the first cycle begins with."""
    return [CreateLog(log) for log in all_logs()]


def encode_value(task: int, number: int, size: int) -> bytes:
    """A record that says who wrote it."""
    return json.dumps([task, number]).encode().ljust(size, b" ")


def decode_value(value: bytes) -> tuple[int, int]:
    """Task and number."""
    task, number = json.loads(value)
    return task, number


def make_commit(task: int, number: int, size: int, epoch: int, sequence: int) -> Commit:
    """Commit `number` of a task."""
    value = encode_value(task, number, size)
    producer: dict[str, Any] = {}
    if task < IDEMPOTENT_TASKS:
        producer = {"producer_id": task, "producer_epoch": epoch, "base_sequence": sequence}
    records = [(0, number, b"%d" % (number % 50), value, ())]
    return Commit(
        appends=[
            Append(own_log(task), encode_batch(records, **producer)),
            Append(SHARED_LOG, encode_batch(records, **producer)),
        ],
        state=[Mutation(SCOPE, state_key(task), b"%d" % number)],
    )


def state_key(task: int) -> bytes:
    """Where the number of a task's last Commit is kept."""
    return b"task-%d" % task
