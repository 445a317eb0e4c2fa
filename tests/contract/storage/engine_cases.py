"""Which engines there are, and how a test holds one.

A new engine adds one line to `CASES`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from mainstem.storage.contract import (
    Append,
    Budget,
    Buffer,
    Commit,
    Committed,
    CreateLog,
    LogConfig,
    MaintainReport,
    Mutation,
    ReadHint,
    ReadResult,
)
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.settings import KIB, MIB, EngineSettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.storage.runtime.async_runtime import AsyncRuntime
from mainstem.storage.runtime.disk import LocalDisk
from mainstem.storage.runtime.runtime import Done, Runtime, Timer
from mainstem.storage.shared.opening import open_engine, prepare
from mainstem.storage.shared.ownership import LeasedOwnership
from mainstem.storage.shared.settings import ClusterSettings
from mainstem.testing.clock import SimulatedClock
from mainstem.testing.shared_store import SimulatedCatalog, SimulatedObjects, SimulatedStore
from mainstem.wire.record_batch import read_header
from tests.support.storage.batches import NOW, pairs_of, split, values_of

COMMIT_BYTES_MAX = 4 * MIB
"""The largest commit of every engine under test."""
DISK_MARKS_OFF = {"disk_hard_mark": 1.0, "disk_reserve_bytes": 0}
"""However full the disk is on which the tests run."""
MAINTAIN_CALLS_MAX = 200
LEASE_MS = 1 << 50
TURNS = 20


class ManualClockRuntime:
    """The runtime in use, with a wall clock that stands still until a test moves it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.loop = runtime.loop
        self._now_ms = NOW
        self._ahead = 0.0

    def advance(self, milliseconds: int) -> None:
        """Let time pass on both clocks."""
        self._now_ms += milliseconds
        self._ahead += milliseconds / 1_000

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self.runtime.monotonic() + self._ahead

    def call_soon(self, function: Callable[[], None]) -> None:
        self.runtime.call_soon(function)

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        return self.runtime.call_later(seconds, function)

    def write(self, job: Callable[[], Any], done: Done[Any]) -> None:
        self.runtime.write(job, done)

    def read(self, job: Callable[[], Any], done: Done[Any]) -> None:
        self.runtime.read(job, done)

    def read_ahead(self, job: Callable[[], Any], done: Done[Any]) -> None:
        self.runtime.read_ahead(job, done)

    def merge(self, job: bytes, done: Done[bytes]) -> None:
        self.runtime.merge(job, done)

    def abandon_merge(self) -> None:
        self.runtime.abandon_merge()


class EngineCase(msgspec.Struct, frozen=True):
    """An engine to be tested, by name."""

    name: str
    open: Callable[[Runtime, Path], Awaitable[Any]]
    durable: bool = False
    """Whether what it holds is there again when it is opened again."""


async def open_memory(runtime: Runtime, _: Path) -> MemoryEngine:
    return MemoryEngine(runtime, commit_bytes_max=COMMIT_BYTES_MAX)


def open_local(**options: Any) -> Callable[[Runtime, Path], Awaitable[LocalEngine]]:
    async def opened(runtime: Runtime, directory: Path) -> LocalEngine:
        settings = EngineSettings(
            data_directory=str(directory),
            commit_bytes_max=COMMIT_BYTES_MAX,
            wal_spare_files=1,
            retention_check_ms=0,
            **DISK_MARKS_OFF,
            **options,
        )
        return LocalEngine.open(disk=LocalDisk(), runtime=runtime, settings=settings)

    return opened


def open_shared(**options: Any) -> Callable[[Runtime, Path], Awaitable[LocalEngine]]:
    """Over a store in memory, which lasts as long as the directory's name: each opening is a take-over."""
    stores: dict[Path, SimulatedStore] = {}

    async def opened(runtime: Runtime, directory: Path) -> LocalEngine:
        settings = EngineSettings(
            data_directory=str(directory),
            commit_bytes_max=COMMIT_BYTES_MAX,
            wal_spare_files=1,
            retention_check_ms=0,
            **DISK_MARKS_OFF,
            **options,
        )
        cluster = ClusterSettings(run_cache_bytes=0, block_bytes=4 * KIB, inline_bytes_max=4 * KIB)
        store = stores.setdefault(directory, SimulatedStore(Random(1), SimulatedClock()))
        store.shard("main").until_ms = -1
        catalog, objects = SimulatedCatalog(store), SimulatedObjects(store)
        lanes = ReadLanes(runtime)
        claim = catalog.take("main", "test", LEASE_MS)
        assert claim is not None
        ownership = LeasedOwnership(
            catalog=catalog,
            runtime=runtime,
            lanes=lanes,
            shard="main",
            claim=claim,
            lease_ms=LEASE_MS,
            sent=runtime.monotonic(),
        )
        prepared = prepare(
            local=LocalDisk(),
            settings=settings,
            cluster=cluster,
            catalog=catalog,
            objects=objects,
            ownership=ownership,
            claim=claim,
        )
        return open_engine(
            prepared=prepared,
            runtime=runtime,
            lanes=lanes,
            settings=settings,
            cluster=cluster,
            catalog=catalog,
            objects=objects,
            ownership=ownership,
        )

    return opened


class ReadLanes:
    """Lanes of a shared store that are the reading threads: nothing here waits for long."""

    def __init__(self, runtime: Runtime) -> None:
        self.append = self.upload = self.renew = self.upkeep = runtime.read


CASES = [
    EngineCase("memory", open_memory),
    EngineCase("local", open_local(wal_file_bytes=1 * MIB), durable=True),
    EngineCase(
        "local-tiny",
        open_local(wal_file_bytes=64 * KIB, block_bytes=1 * KIB, tier_runs_max=2, cache_bytes_max=16 * KIB),
        durable=True,
    ),
    EngineCase("shared", open_shared(wal_file_bytes=64 * KIB, block_bytes=1 * KIB, tier_runs_max=2), durable=True),
]


class EngineUnderTest:
    """An open engine, with what tests say often in short."""

    def __init__(self, case: EngineCase, runtime: AsyncRuntime, directory: Path) -> None:
        self.case = case
        self.clock = ManualClockRuntime(runtime)
        self.directory = directory
        self.engine: Any = None

    async def open(self) -> None:
        self.engine = await self.case.open(self.clock, self.directory)

    async def close(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            await engine.close()

    async def reopen(self) -> None:
        """Close and open again; a test that needs it is skipped where nothing survives that."""
        if not self.case.durable:
            pytest.skip(f"{self.case.name} forgets when closed")
        await self.close()
        await self.open()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def settle(self) -> MaintainReport:
        """Maintain until there is nothing left to do; what was done altogether."""
        total = MaintainReport()
        for _ in range(MAINTAIN_CALLS_MAX):
            report = await self.engine.maintain(Budget())
            total = MaintainReport(*map(sum_of, msgspec.structs.astuple(total), msgspec.structs.astuple(report)))
            if report == MaintainReport(full=report.full):
                return total
        raise AssertionError(f"maintenance finds no end: {report}")

    async def seal(self) -> MaintainReport:
        """Settle when nothing that was written so far can hide in a file still being written."""
        if self.case.durable:
            await self.close()
            await self.open()
        return await self.settle()

    async def stages(self) -> AsyncIterator[str]:
        """The same content, from wherever the engine may have it."""
        yield "as written"
        await self.settle()
        yield "settled"
        if self.case.durable:
            await self.reopen()
            yield "reopened"
            await self.settle()
            yield "settled again"
            await self.reopen()
            yield "reopened again"

    # --- in short ---------------------------------------------------------------------------------------------------

    async def create(self, *logs: int, **config: Any) -> None:
        await self.engine.alter([CreateLog(log, LogConfig(**config)) for log in logs])

    async def commit_one(self, commit: Commit) -> Committed:
        """One Commit that must succeed."""
        (result,) = await self.engine.commit([commit])
        assert isinstance(result, Committed), repr(result)
        return result

    async def refused(self, commit: Commit) -> Exception:
        """One Commit that must not."""
        (result,) = await self.engine.commit([commit])
        assert isinstance(result, Exception), repr(result)
        return result

    async def append(self, log: int, *batches: Buffer) -> list[int]:
        """One Commit for each batch; answers the bases."""
        results = await self.engine.commit([Commit(appends=[Append(log, content)]) for content in batches])
        assert all(isinstance(result, Committed) for result in results), repr(results)
        return [result.bases[0] for result in results]

    async def put(self, scope: str, **entries: bytes | None) -> None:
        await self.commit_one(Commit(state=[Mutation(scope, key.encode(), value) for key, value in entries.items()]))

    async def state(self, scope: str) -> dict[bytes, bytes]:
        return {bytes(k): bytes(v) for k, v in (await self.engine.load(scope)).entries.items()}

    async def facts(self, log: int) -> ReadResult:
        """A read of nothing, at the end of the log."""
        return await self.engine.read(log, self.end(log), 0)

    def end(self, log: int) -> int:
        """Where the log ends now."""
        watch = self.engine.watch(lambda _: None)
        try:
            return watch.add(log).end
        finally:
            watch.close()

    async def read_all(
        self, log: int, offset: int | None = None, max_bytes: int = 1 << 20, hint: ReadHint = ReadHint.TAIL
    ) -> list[bytes]:
        """All batches from `offset`, or the start, to the end, in as many reads as it takes."""
        if offset is None:
            offset = (await self.facts(log)).start
        batches: list[bytes] = []
        while True:
            result = await self.engine.read(log, offset, max_bytes, hint)
            assert result.start <= offset <= result.end
            assert offset <= result.next_offset <= result.end
            found = split(result.batches)
            if offset == result.end:
                assert not found
                return batches
            check_found(found, offset, max_bytes)
            if found:
                assert result.next_offset >= read_header(found[-1]).next_offset
            assert result.next_offset > offset, "no progress"
            batches.extend(found)
            offset = result.next_offset

    async def values(self, log: int) -> list[bytes | None]:
        return values_of(await self.read_all(log))

    async def pairs(self, log: int) -> list[tuple[int, bytes | None, bytes | None]]:
        return pairs_of(await self.read_all(log))

    async def turns(self) -> None:
        """Let whatever is ready run."""
        for _ in range(TURNS):
            await asyncio.sleep(0)


def check_found(found: Sequence[bytes], offset: int, max_bytes: int) -> None:
    """What must hold of the batches of every read, whatever the log."""
    headers = [read_header(part) for part in found]
    if headers:
        assert headers[0].last_offset >= offset, "a batch wholly below the offset asked for"
    for header, following in zip(headers, headers[1:], strict=False):
        assert following.base_offset >= header.next_offset, "batches overlap or go back"
    if len(found) > 1:
        assert sum(map(len, found)) <= max_bytes, "more than asked for"


def sum_of(first: int | bool, second: int | bool) -> int | bool:
    """Counts add up; of a flag the last word counts."""
    return second if isinstance(second, bool) else first + second
