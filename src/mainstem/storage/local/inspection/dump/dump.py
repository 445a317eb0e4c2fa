"""What is in a data directory, or in single files, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mainstem.storage.local.directories import Directories
from mainstem.storage.local.frame import FILE_MAGIC
from mainstem.storage.local.inspection.dump.file_dump import FileDump
from mainstem.storage.local.inspection.dump.rows import AnyRow, FileRow, TroubleRow
from mainstem.storage.local.inspection.dump.selection import Selection
from mainstem.storage.local.inspection.inventory import classify
from mainstem.storage.local.inspection.survey import Survey
from mainstem.storage.local.runs.run_file import RUN_MAGIC
from mainstem.storage.local.runs.state_run import STATE_MAGIC
from mainstem.storage.runtime.disk import Disk

_MAGICS = {FILE_MAGIC: "wal", RUN_MAGIC: "run", STATE_MAGIC: "state"}


def dump_directory(disk: Disk, directories: Directories, selection: Selection) -> Iterator[AnyRow]:
    """All that is live, each record once: state, runs from old to new, and what was not merged yet."""
    return selection.choose(_live_rows(disk, directories, selection))


def dump_files(disk: Disk, paths: Iterable[str], selection: Selection) -> Iterator[AnyRow]:
    """All that lies in these files, dead or alive."""
    return selection.choose(_file_rows(disk, paths, selection))


def _live_rows(disk: Disk, directories: Directories, selection: Selection) -> Iterator[AnyRow]:
    survey = Survey(disk, directories).run()
    shown = {*survey.state_runs, *(run.path for run in survey.runs), *(part.path for part in survey.wal)}
    for finding in survey.findings:
        if finding.is_trouble and finding.file not in shown:
            yield TroubleRow(finding.file, finding.position, finding.what, finding.logs)
    files = FileDump(disk, selection, survey.state.is_alive, survey.state.merged)
    for path in survey.state_runs:
        yield from files.rows(path, "state")
    for run in survey.runs:
        yield from files.rows(run.path, "run")
    for part in survey.wal:
        yield from files.rows(part.path, "wal", part.following)
    for file in survey.spares:
        yield FileRow(file.path, "spare", file.bytes)
    for file in survey.leftovers:
        yield FileRow(file.path, "leftover", file.bytes)
    for file in survey.files:
        if file.kind == "unknown":
            yield FileRow(file.path, "unknown", file.bytes)


def _file_rows(disk: Disk, paths: Iterable[str], selection: Selection) -> Iterator[AnyRow]:
    files = FileDump(disk, selection)
    for path in paths:
        kind = _kind_of(disk, path)
        if kind is None:
            yield TroubleRow(path, 0, "not a file of the write-ahead log, a run or a state run")
        else:
            yield from files.rows(path, kind)


def _kind_of(disk: Disk, path: str) -> str | None:
    """By name, or by the first bytes where the file was renamed."""
    kind, _, _ = classify(path.rpartition("/")[2])
    if kind in ("wal", "run", "state"):
        return kind
    try:
        file = disk.open(path, writable=False)
    except OSError:
        return "wal"  # whose reader says why
    try:
        return _MAGICS.get(file.read(4, 0), "wal" if kind == "spare" else None)
    except OSError:
        return None
    finally:
        file.close()
