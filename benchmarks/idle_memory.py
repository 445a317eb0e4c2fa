"""Memory of idle logs: the growth of the process for 100,000 of them."""

from __future__ import annotations

import os

from benchmarks.load import CREATE_STEP, engine, scratch
from benchmarks.report import Figure
from mainstem.storage.contract import CreateLog

LOGS = 100_000
BYTES_PER_LOG_MAX = 2048


async def idle_memory(parent: str | None) -> list[Figure]:
    """Created, never written."""
    with scratch(parent) as directory:
        async with engine(directory, merging=True, wal_spare_files=1) as opened:
            before = resident_bytes()
            for first in range(0, LOGS, CREATE_STEP):
                await opened.alter([CreateLog(log) for log in range(first, first + CREATE_STEP)])
            each = (resident_bytes() - before) / LOGS
    return [Figure("idle memory per log at 100,000 logs, bytes", each, at_most=BYTES_PER_LOG_MAX)]


def resident_bytes() -> int:
    """Of this process."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
