"""Offline looks at a data directory, as commands want them: lines out, nothing changed, no lock taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from mainstem.storage.local.directories import IDENTITY
from mainstem.storage.local.directories import Directories as Directories
from mainstem.storage.local.inspection.dump.dump import dump_directory, dump_files
from mainstem.storage.local.inspection.dump.row_lines import RowLines
from mainstem.storage.local.inspection.dump.rows import TroubleRow
from mainstem.storage.local.inspection.dump.selection import Selection as Selection
from mainstem.storage.local.inspection.finding import Finding
from mainstem.storage.local.inspection.presence import broker_process
from mainstem.storage.local.inspection.statistics import LogStatistics, Statistics, measure
from mainstem.storage.local.inspection.statistics_lines import statistics_lines
from mainstem.storage.local.inspection.verify.checked import Checked
from mainstem.storage.local.inspection.verify.verification import verify
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.runtime.disk import LocalDisk

Print: TypeAlias = Callable[[str], None]
Found: TypeAlias = Literal["clean", "damage"]

_json = msgspec.json.Encoder().encode


class NoDataDirectory(Exception):
    """There is nothing to look at."""


def find_directories(settings: EngineSettings) -> Directories:
    """Where the parts are. Raises NoDataDirectory when they are not."""
    directories = Directories(settings)
    disk = LocalDisk()
    for path in (
        directories.root,
        *([settings.wal_directory] if settings.wal_directory else ()),
        *settings.run_directories,
    ):
        if not disk.exists(path):
            raise NoDataDirectory(f"there is no directory {path}")
    parts = (f"{directories.root}/{IDENTITY}", directories.wal, directories.state)
    if not any(disk.exists(path) for path in parts):
        raise NoDataDirectory(f"{directories.root} is not a data directory of Mainstem")
    for path in {directories.root, directories.wal, directories.state, *directories.runs}:
        try:
            _ = disk.exists(path) and disk.list(path)
        except OSError as error:
            raise NoDataDirectory(f"cannot read {path}: {error.strerror}") from None
    return directories


def describe_broker(directories: Directories) -> str | None:
    """A word of warning while a broker works on the directory."""
    process = broker_process(directories.root)
    if process is None:
        return None
    return f"a broker (process {process}) is using {directories.root}: what it is writing may be seen half"


def dump(
    source: Directories | Sequence[str],
    out: Print,
    *,
    selection: Selection,
    as_json: bool,
) -> Found:
    """Print what is in a data directory, or in files."""
    disk = LocalDisk()
    found: Found = "clean"
    lines = RowLines()
    rows = (
        dump_directory(disk, source, selection)
        if isinstance(source, Directories)
        else dump_files(disk, source, selection)
    )
    for row in rows:
        if isinstance(row, TroubleRow):
            found = "damage"
        out(_json(row).decode() if as_json else lines.line(row))
    return found


def verify_directory(directories: Directories, out: Print, *, as_json: bool) -> Found:
    """Print all that is wrong, and what was looked at."""
    checked = Checked()
    counts = {"damage": 0, "unsupported": 0, "note": 0}
    moving = broker_process(directories.root) is not None
    for finding in verify(LocalDisk(), directories, checked, moving=moving):
        counts[finding.severity] += 1
        out(_json(finding).decode() if as_json else _finding_line(finding))
    if as_json:
        out(_json({"checked": checked, "found": counts, "broker_running": moving}).decode())
    else:
        out(_summary_line(checked, counts))
    return "damage" if counts["damage"] or counts["unsupported"] else "clean"


def _finding_line(finding: Finding) -> str:
    hit = f"; logs {', '.join(map(str, finding.logs))}" if finding.logs else ""
    return f"{finding.severity}: {finding.file} at {finding.position}: {finding.what}{hit}"


def _summary_line(checked: Checked, counts: dict[str, int]) -> str:
    looked = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in msgspec.structs.asdict(checked).items())
    if counts["damage"] or counts["unsupported"]:
        verdict = f"{counts['damage']} damaged, {counts['unsupported']} of a newer version"
    else:
        verdict = "all whole"
    return f"checked {looked}: {verdict}"


def print_statistics(directories: Directories, out: Print, *, as_json: bool, top: int) -> Found:
    """Print how much there is; of logs the largest ones, all with `top` 0."""
    statistics = measure(LocalDisk(), directories)
    shown = statistics.logs if top == 0 else statistics.logs[:top]
    for line in _json_lines(statistics, shown) if as_json else statistics_lines(statistics, shown):
        out(line)
    return "damage" if statistics.troubles else "clean"


def _json_lines(statistics: Statistics, logs: Sequence[LogStatistics]) -> Iterator[str]:
    for files in statistics.files:
        yield _json({"kind": "files", **msgspec.structs.asdict(files)}).decode()
    for scope, size in statistics.scopes.items():
        yield _json({"kind": "scope", "scope": scope, **msgspec.structs.asdict(size)}).decode()
    for log in logs:
        yield _json({"kind": "log", **msgspec.structs.asdict(log)}).decode()
    for trouble in statistics.troubles:
        yield _json({"kind": "trouble", **msgspec.structs.asdict(trouble)}).decode()
