"""The process that is killed: commits from several tasks, and says on standard output what was acknowledged."""

from __future__ import annotations

import asyncio
import os
import sys
from random import Random

from mainstem.model.errors import Overloaded
from mainstem.storage.contract import Budget, Commit, CommitResult, Committed
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.runtime.disk import LocalDisk
from tests.crash.workload import (
    IDEMPOTENT_TASKS,
    SCOPE,
    TASKS,
    VALUE_BYTES,
    creations,
    make_commit,
    settings_for,
    state_key,
)


def say(*words: object) -> None:
    """One line, at once: whatever was said before the kill has been said."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def commit_in_time(engine: LocalEngine, commit: Commit) -> CommitResult:
    """Commit, as soon as merging has caught up."""
    while True:
        try:
            (result,) = await engine.commit([commit])
        except Overloaded:
            await asyncio.sleep(0.01)
        else:
            return result


async def write(engine: LocalEngine, task: int, number: int, epoch: int, rng: Random) -> None:
    """One Commit after the other, for ever."""
    sequence = 0
    while True:
        number += 1
        commit = make_commit(task, number, rng.choice(VALUE_BYTES), epoch, sequence)
        again = (
            make_commit(task, number, 20, epoch, sequence) if task < IDEMPOTENT_TASKS and rng.random() < 0.2 else None
        )
        result = await commit_in_time(engine, commit)
        if not isinstance(result, Committed):
            say("broken", f"commit {number} of task {task}: {result!r}")
            return
        say("written", task, number, *result.bases)
        if again is not None:
            repeated = await commit_in_time(engine, again)
            if not isinstance(repeated, Committed) or list(repeated.bases) != list(result.bases):
                say("broken", f"repeating commit {number} of task {task}: {repeated!r} instead of {result!r}")
                return
        sequence += 1
        if rng.random() < 0.02:
            await asyncio.sleep(rng.random() * 0.1)


async def maintain(engine: LocalEngine) -> None:
    """As the server does."""
    while True:
        await engine.maintain(Budget())
        await asyncio.sleep(0.02)


async def main(directory: str, epoch: int, seed: int) -> None:
    rng = Random(seed)
    runtime = local_runtime(asyncio.get_running_loop())
    engine = LocalEngine.open(disk=LocalDisk(), runtime=runtime, settings=settings_for(directory))
    engine.on_failure(lambda error: say("broken", f"engine failed: {error}"))
    say("open")
    state = (await engine.load(SCOPE)).entries
    if not (await engine.load("engine/logs")).entries:
        await engine.alter(creations())
    say("ready")
    numbers = [int(state.get(state_key(task), b"0")) for task in range(TASKS)]
    tasks = [write(engine, task, numbers[task], epoch, Random(rng.random())) for task in range(TASKS)]
    await asyncio.gather(maintain(engine), *tasks)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
