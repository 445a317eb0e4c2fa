"""A local engine on a simulated disk, one call after the other: for tests that lay bytes down and then damage them."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from mainstem.storage.answer import Answer
from mainstem.storage.contract import Append, Commit, CreateLog, Edge, LogConfig, Mutation, Refer
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.frame import KIND_NAMES, SECTOR_BYTES, decode_file_header
from mainstem.storage.local.merge.merge import run_merge_job
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.local.wal.stored_group import StoredGroup, decode_group
from mainstem.testing.disk import SimulatedDisk
from mainstem.testing.runtime import SimulatedRuntime
from mainstem.wire.record_batch import batches_in, encode_batch

T = TypeVar("T")

SCOPE = "test"
IDLE_MS = 10_000_000
"""Longer than any test: the last group is not proven by an empty one unless the test wants it."""


def make_batch(text: str, records: int = 1) -> bytes:
    """A batch that can be recognised."""
    return bytes(encode_batch([(n, 1000 + n, b"k", f"{text}/{n}".encode(), ()) for n in range(records)]))


class Node:
    """An open engine. Recovery happens in the constructor."""

    def __init__(self, disk: SimulatedDisk | None = None, **settings: Any) -> None:
        self.disk = disk or SimulatedDisk()
        defaults: dict[str, Any] = {"data_directory": "data", "wal_file_bytes": 16 * 1024, "proof_idle_ms": IDLE_MS}
        self.settings = EngineSettings(**(defaults | settings))
        self.runtime = SimulatedRuntime(Random(1), run_merge=lambda job: run_merge_job(self.disk, job))
        self.engine = LocalEngine.open(disk=self.disk, runtime=self.runtime, settings=self.settings)

    def wait(self, answer: Answer[T]) -> T:
        """The answer, when it is there."""
        self.runtime.run_until(lambda: answer.done)
        return answer.result()

    def settle(self) -> None:
        """Until nothing is under way."""
        self.runtime.run_until(lambda: self.runtime.idle)

    def create(self, *logs: int, config: LogConfig = LogConfig()) -> None:  # noqa: B008  # frozen
        """New logs, in one group."""
        self.wait(self.engine.alter([CreateLog(log, config) for log in logs]))

    def commit(self, commit: Commit) -> Any:
        """One group with one Commit."""
        (result,) = self.wait(self.engine.commit([commit]))
        assert not isinstance(result, Exception), result
        return result

    def append(self, log: int, text: str, *, refer: int | None = None, state: bool = False, records: int = 1) -> None:
        """One group: a batch, and where asked for a reference to it and a mutation."""
        self.commit(
            Commit(
                appends=[Append(log, make_batch(text, records))],
                refers=[] if refer is None else [Refer(refer, 0)],
                state=[Mutation(SCOPE, text.encode(), text.encode())] if state else [],
            )
        )

    def texts(self, log: int) -> list[str]:
        """What the records of a log say, all of them; raises what reading raises."""
        found: list[str] = []
        offset = self.wait(self.engine.offset_at(log, Edge.START)).offset
        while True:
            result = self.wait(self.engine.read(log, offset, 1 << 20))
            for buffer in result.batches:
                view = memoryview(buffer)
                for position, size in batches_in(view):
                    batch = bytes(view[position : position + size])
                    found.append(batch.split(b"k")[-1][1:].split(b"/")[0].decode())
            if result.next_offset >= result.end:
                return found
            offset = result.next_offset

    def state(self) -> set[str]:
        """The keys of the test's scope."""
        return {key.decode() for key in self.wait(self.engine.load(SCOPE)).entries}


def groups_in(disk: SimulatedDisk, path: str) -> list[StoredGroup]:
    """The groups of a file of the write-ahead log, as they lie there."""
    content = memoryview(disk.content(path))
    header = decode_file_header(bytes(content[:SECTOR_BYTES]), path)
    assert header is not None
    groups: list[StoredGroup] = []
    position, sequence = SECTOR_BYTES, header.first
    while position < len(content) and bytes(content[position : position + 2]) == b"SM":
        group = decode_group(content, position, header.generation, sequence)
        groups.append(group)
        position, sequence = group.end, sequence + 1
    return groups


def kinds(group: StoredGroup) -> list[str]:
    """Names of its frames."""
    return [KIND_NAMES[frame.kind] for frame in group.frames]
