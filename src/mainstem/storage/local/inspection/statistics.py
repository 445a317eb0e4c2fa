"""How much of what a data directory holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from mainstem.model.errors import CorruptData, UnsupportedFormat
from mainstem.storage.local.directories import Directories
from mainstem.storage.local.inspection.finding import Finding, finding_of
from mainstem.storage.local.inspection.node_state import ScopeSize
from mainstem.storage.local.inspection.survey import Survey, Visitor
from mainstem.storage.local.inspection.verify.tails import Tails
from mainstem.storage.local.runs.run_file import RunIndex
from mainstem.storage.local.wal.stored_group import StoredGroup
from mainstem.storage.runtime.disk import Disk
from mainstem.storage.sequencer.engine_scopes import LogEntry

_RETENTION = ("retention_ms", "retention_bytes", "acknowledged", "delete", "compact")


class FileStatistics(msgspec.Struct):
    """Files of one kind. Kinds: wal, spare, run, state, leftover, unknown, identity, lock."""

    type: str
    count: int = 0
    bytes: int = 0
    groups: int | None = None
    """Of the write-ahead log: groups that somebody still needs."""


class LogStatistics(msgspec.Struct):
    """One log: what can be read of it."""

    log: int
    start: int
    end: int
    floor: int
    bytes: int = 0
    batches: int = 0
    oldest_ms: int | None = None
    newest_ms: int | None = None
    """Of the highest timestamps of blocks and unmerged batches, the lowest and the highest: what retention looks at."""
    runs: int = 0
    """How many runs hold a part of it."""
    retention: dict[str, Any] = {}
    """The settings that decide what goes, where they are not the default."""

    def add(self, next_: int, size: int, batches: int, time_ms: int) -> None:
        """Take a block or a batch in."""
        self.end = max(self.end, next_)
        if next_ <= self.start:
            return
        self.bytes += size
        self.batches += batches
        if time_ms >= 0:
            self.oldest_ms = time_ms if self.oldest_ms is None else min(self.oldest_ms, time_ms)
            self.newest_ms = time_ms if self.newest_ms is None else max(self.newest_ms, time_ms)


class Statistics(msgspec.Struct):
    """Everything, logs by size."""

    files: list[FileStatistics]
    scopes: dict[str, ScopeSize]
    logs: list[LogStatistics]
    troubles: list[Finding]


class _TailTaker(Visitor):
    def __init__(self) -> None:
        self.tails = Tails()

    def take_group(self, path: str, group: StoredGroup) -> None:
        self.tails.take(group)


def measure(disk: Disk, directories: Directories) -> Statistics:
    """Look at state, the write-ahead log and the indexes of runs; blocks are not read."""
    taker = _TailTaker()
    survey = Survey(disk, directories, taker, measured=True).run()
    troubles = [finding for finding in survey.findings if finding.is_trouble]
    logs = {log: _begin(log, entry) for log, entry in survey.state.logs.items()}
    for run in survey.runs:
        try:
            _add_run(disk, run.path, logs)
        except (CorruptData, UnsupportedFormat, OSError) as error:
            troubles.append(finding_of(error, run.path))
    for log, statistics in logs.items():
        for batch in taker.tails.batches(log, survey.state.merged):
            statistics.add(batch.next, batch.bytes, 1, batch.time)
    ordered = sorted(logs.values(), key=lambda statistics: (-statistics.bytes, statistics.log))
    return Statistics(_count_files(survey), survey.state.scope_sizes(), ordered, troubles)


def _begin(log: int, entry: LogEntry) -> LogStatistics:
    config = msgspec.to_builtins(entry.config)
    retention = {name: config[name] for name in _RETENTION if name in config}
    return LogStatistics(log, entry.start, entry.start, entry.floor, retention=retention)


def _add_run(disk: Disk, path: str, logs: dict[int, LogStatistics]) -> None:
    file = disk.open(path, writable=False)
    try:
        index = RunIndex.load(file)
    finally:
        file.close()
    for slot, log in enumerate(index.logs):
        statistics = logs.get(log)
        if statistics is None:
            continue
        statistics.runs += 1
        statistics.end = max(statistics.end, index.nexts[slot])
        for block in index.blocks(slot):
            statistics.add(
                index.block_nexts[block],
                index.block_sizes[block],
                index.block_batches[block],
                index.block_times[block],
            )


def _count_files(survey: Survey) -> list[FileStatistics]:
    sizes = {file.path: file.bytes for file in survey.files}
    kinds: defaultdict[str, list[int]] = defaultdict(list)
    roles: list[tuple[str, Iterable[str]]] = [
        ("wal", [part.path for part in survey.wal]),
        ("spare", [file.path for file in survey.spares]),
        ("run", [run.path for run in survey.runs]),
        ("state", survey.state_runs),
        ("leftover", [file.path for file in survey.leftovers]),
    ]
    for role, paths in roles:
        kinds[role] = [sizes.pop(path, 0) for path in paths]
    for file in survey.files:
        if file.path in sizes:
            kinds[file.kind].append(file.bytes)
    counted = [FileStatistics(kind, len(found), sum(found)) for kind, found in kinds.items() if found]
    for statistics in counted:
        if statistics.type == "wal":
            statistics.groups = sum(
                max(0, part.last + 1 - max(part.header.first, survey.needed)) for part in survey.wal
            )
    return counted
