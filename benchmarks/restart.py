"""Start after kill -9 on a large directory, half of it single-record batches over 10,000 logs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

from benchmarks.append import LOGS
from benchmarks.load import GIB, KIB, engine, one, run, scratch, single_record
from benchmarks.report import Figure
from mainstem.model.errors import Overloaded
from mainstem.storage.contract import Append, Commit, CommitResult
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.runtime.disk import LocalDisk
from mainstem.wire.record_batch import encode_batch

START_SECONDS_MAX = 5.0


async def restart(parent: str | None, gigabytes: float) -> list[Figure]:
    """Another process fills the directory and is killed while it writes."""
    with scratch(parent) as directory:
        writer = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs in this loop
            [sys.executable, "-m", "benchmarks.restart", directory, str(gigabytes)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        line = await asyncio.get_running_loop().run_in_executor(None, writer.stdout.readline)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert line.startswith("filled"), f"the writer ended early: {line!r}"
        runtime = local_runtime(asyncio.get_running_loop())
        begin = time.perf_counter()
        opened = LocalEngine.open(disk=LocalDisk(), runtime=runtime, settings=EngineSettings(data_directory=directory))
        seconds = time.perf_counter() - begin
        size = sum(state.bytes for state in opened.ledger.visible.values())
        await opened.close()
        runtime.close()
    return [
        Figure("data directory, GB", size / 1e9),
        Figure("start after kill -9, seconds", seconds, at_most=START_SECONDS_MAX),
    ]


async def _fill(directory: str, gigabytes: float) -> None:
    batch = single_record()
    big = bytes(encode_batch([(0, 1_700_000_000_000, None, os.urandom(256 * KIB), ())]))
    half = int(gigabytes * GIB / 2)
    async with engine(directory, merging=True, logs=LOGS, disk_hard_mark=0.99) as opened:
        written = 0
        while written < half:
            written += await _commit(opened, [Commit((Append(0, big),)) for _ in range(16)], len(big))
        written = log = 0
        while written < half:
            commits = [one((log + step) % LOGS, batch) for step in range(2_000)]
            log += len(commits)
            written += await _commit(opened, commits, len(batch))
        print("filled", flush=True)
        while True:
            await _commit(opened, [one(log, batch) for log in range(100)], len(batch))


async def _commit(opened: LocalEngine, commits: list[Commit], size: int) -> int:
    try:
        results: list[CommitResult] = await opened.commit(commits)
    except Overloaded:
        await asyncio.sleep(0.05)
        return 0
    return len(results) * size


if __name__ == "__main__":
    run(lambda: _fill(sys.argv[1], float(sys.argv[2])))
