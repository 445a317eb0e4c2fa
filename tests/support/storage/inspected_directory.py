"""A data directory with something of every kind in it, written by the real engine, and what must be found there."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from mainstem.storage.contract import (
    Append,
    Budget,
    Commit,
    Committed,
    CreateLog,
    DeleteLog,
    LogConfig,
    Mutation,
    Refer,
)
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.local.settings import EngineSettings
from mainstem.wire.compression import ZSTD
from mainstem.wire.record_batch import Record, decode_records, encode_batch, encode_marker
from tests.support.storage.wal_builder import UnsyncedDisk

PLAIN, REFERRING, INDEXED, COMPACTED, LARGE, TRANSACTIONAL, DELETED = range(1, 8)
FAN_OUT = range(8, 13)
"""Logs that share their batches; the last of them begins with one of its own."""
LARGE_BYTES = 70_000
PRODUCER = 77
DISK_MARKS_OFF = {"disk_hard_mark": 1.0, "disk_reserve_bytes": 0}
"""However full the disk is on which the tests run."""


def settings_of(root: Path) -> EngineSettings:
    return EngineSettings(
        data_directory=str(root), wal_file_bytes=128 << 10, block_bytes=2048, tier_runs_max=100, **DISK_MARKS_OFF
    )


class InspectedDirectory:
    """Commits, and remembers every record at its offset."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = settings_of(root)
        self.expected: defaultdict[int, dict[int, Record]] = defaultdict(dict)
        self.starts: defaultdict[int, int] = defaultdict(int)
        self._engine: LocalEngine

    def remaining(self, log: int) -> dict[int, Record]:
        """The records from the start of the log on."""
        return {offset: record for offset, record in self.expected[log].items() if offset >= self.starts[log]}

    async def commit(
        self, appends: Sequence[tuple[int, bytes]], refers: Sequence[tuple[int, int]] = (), state: bytes = b""
    ) -> None:
        commit = Commit(
            appends=[Append(log, bytearray(batch)) for log, batch in appends],
            refers=[Refer(log, index) for log, index in refers],
            state=[Mutation("test", state, b"state of " + state)] if state else [],
        )
        (result,) = await self._engine.commit([commit])
        assert isinstance(result, Committed), result
        placed = [*appends, *((log, appends[index][1]) for log, index in refers)]
        for (log, batch), base in zip(placed, result.bases, strict=True):
            for record in decode_records(batch):
                moved = record._replace(offset=base + record.offset)
                self.expected[log][moved.offset] = moved

    async def write(self, rounds: range) -> None:
        """Small batches in most logs."""
        for number in rounds:
            key, time_ms = b"key-%d" % number, 1_700_000_000_000 + number
            headers = (("trace", b"\x00\xff%d" % number), ("none", None))
            plain = encode_batch([(i, time_ms + i, key, b"text %d" % i, headers) for i in range(3)])
            packed = encode_batch(
                [(i, time_ms, None, bytes([number % 256]) * 99, ()) for i in range(2)], compression=ZSTD
            )
            indexed = encode_batch([(0, time_ms, b"k%d" % (number % 7), None if number % 5 == 0 else b"indexed", ())])
            compacted = encode_batch([(0, time_ms, b"same", b"number %d" % number, ())])
            appends = [(PLAIN, plain), (REFERRING, packed), (INDEXED, indexed), (COMPACTED, compacted)]
            await self.commit(appends, [(REFERRING, 0)] if number % 4 == 0 else [], key if number % 10 == 0 else b"")
            fan_out = encode_batch([(i, time_ms + i, key, b"for all %d" % number, ()) for i in range(2)])
            await self.commit([(FAN_OUT[0], fan_out)], [(log, 0) for log in FAN_OUT[1:]])
        sequence = rounds.start
        produced = [(i, 1_700_000_000_000, b"p", b"in a transaction", ()) for i in range(2)]
        batch = encode_batch(
            produced, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence * 2, transactional=True
        )
        await self.commit([(TRANSACTIONAL, batch)])
        await self.commit([(TRANSACTIONAL, encode_marker(PRODUCER, 0, commit=rounds.start != 0, timestamp_ms=5))])

    async def write_large(self) -> None:
        """Batches that make their files runs as they are."""
        for number in range(3):
            value = os.urandom(LARGE_BYTES)
            await self.commit([(LARGE, encode_batch([(0, 1_700_000_000_500 + number, b"large", value, ())]))])

    async def maintain(self) -> None:
        while True:
            report = await self._engine.maintain(Budget())
            if not (report.merged_files or report.written_runs or report.removed_files):
                return

    async def _build(self) -> None:
        runtime = local_runtime(asyncio.get_running_loop())
        try:
            self._engine = LocalEngine.open(disk=UnsyncedDisk(), runtime=runtime, settings=self.settings)
            configs = {
                REFERRING: LogConfig(retention_bytes=1 << 40),
                INDEXED: LogConfig(key_index=True, retention_ms=10**15),
                COMPACTED: LogConfig(compact=True),
            }
            await self._engine.alter([CreateLog(log, configs.get(log, LogConfig())) for log in range(1, FAN_OUT.stop)])
            await self.commit([(DELETED, encode_batch([(0, 1, b"gone", b"gone", ())]))])
            await self.commit([(FAN_OUT[-1], encode_batch([(0, 1, b"own", b"own", ())]))])
            await self.write(range(60))
            await self.write_large()
            await self.write(range(1, 61))
            await self.maintain()
            self.starts[PLAIN] = await self._engine.trim(PLAIN, 31)
            await self._engine.alter([DeleteLog(DELETED)])
            del self.expected[DELETED]
            await self.write(range(2, 12))
            await self._engine.close()
        finally:
            runtime.close()

    def build(self) -> InspectedDirectory:
        asyncio.run(self._build())
        return self
