"""Opens what a killed writer left, and compares it with what was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from mainstem.storage.contract import Budget, ReadHint
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.runtime.disk import LocalDisk
from mainstem.wire.record_batch import batches_in, decode_records
from tests.crash.workload import (
    SCOPE,
    SHARED_LOG,
    TASKS,
    Written,
    all_logs,
    decode_value,
    own_log,
    settings_for,
    state_key,
)
from tests.support.crashing.promises import Broken

READ_BYTES = 1 << 20

Entry = tuple[int, int]
"""Task and number, as a record says."""


def verify(directory: str, acknowledged: Sequence[Written]) -> int:
    """Recover, read everything, compare; answers how many records there are."""
    return asyncio.run(_verify(directory, acknowledged))


async def _verify(directory: str, acknowledged: Sequence[Written]) -> int:
    runtime = local_runtime(asyncio.get_running_loop())
    engine = LocalEngine.open(disk=LocalDisk(), runtime=runtime, settings=settings_for(directory))
    try:
        state = (await engine.load(SCOPE)).entries
        if not (await engine.load("engine/logs")).entries:
            if acknowledged:
                raise Broken("no log is left")
            return 0
        logs = {log: await read_log(engine, log) for log in all_logs()}
        check(logs, state, acknowledged)
        # A writer rarely lives long enough to see a merge through.
        await engine.maintain(Budget())
        return sum(map(len, logs.values()))
    finally:
        await engine.close()
        runtime.close()


async def read_log(engine: LocalEngine, log: int) -> list[Entry]:
    """What the records of a log say, by offset."""
    found: list[Entry] = []
    while True:
        result = await engine.read(log, len(found), READ_BYTES, ReadHint.CATCH_UP)
        for buffer in result.batches:
            view = memoryview(buffer)
            for position, size in batches_in(view):
                for record in decode_records(view[position : position + size]):
                    if record.offset != len(found):
                        raise Broken(f"log {log} has offset {record.offset} where {len(found)} must be")
                    assert record.value is not None
                    found.append(decode_value(record.value))
        if len(found) >= result.end:
            return found


def check(logs: Mapping[int, Sequence[Entry]], state: Mapping[bytes, bytes], acknowledged: Sequence[Written]) -> None:
    """All that was acknowledged, in its place; and of the rest, every Commit whole or not at all."""
    for task, number, own_offset, shared_offset in acknowledged:
        for log, offset in ((own_log(task), own_offset), (SHARED_LOG, shared_offset)):
            found = logs[log][offset] if offset < len(logs[log]) else None
            if found != (task, number):
                raise Broken(
                    f"commit {number} of task {task} was acknowledged at {offset} of log {log}; there is {found}"
                )
    for task in range(TASKS):
        own = list(logs[own_log(task)])
        shared = [entry for entry in logs[SHARED_LOG] if entry[0] == task]
        expected = [(task, number) for number in range(1, len(own) + 1)]
        last = int(state.get(state_key(task), b"0"))
        if own != expected:
            raise Broken(f"log {own_log(task)} is not the sequence of its task's commits: {own[-5:]}")
        if shared != own:
            raise Broken(f"task {task} has {len(own)} commits in its own log and {len(shared)} in the shared one")
        if last != len(own):
            raise Broken(f"the state of task {task} says {last}, its log {len(own)}")
