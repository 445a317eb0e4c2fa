"""Every file of a data directory, by what its name says it is."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from mainstem.storage.local.directories import IDENTITY, LOCK, TEMPORARY_SUFFIX, Directories
from mainstem.storage.local.runs.state_run import STATE_SUFFIX
from mainstem.storage.local.runs.stored_file import RUN_SUFFIX, WAL_SUFFIX
from mainstem.storage.runtime.disk import Disk

FileKind: TypeAlias = Literal["identity", "lock", "wal", "spare", "run", "state", "temporary", "unknown"]

SPARE_PREFIX = "spare-"
_NUMBERED = re.compile(r"([0-9a-f]{16})(?:-([0-9a-f]{16}))?(\.[a-z]+)")


class FoundFile(NamedTuple):
    """A file, and the numbers in its name."""

    kind: FileKind
    path: str
    bytes: int
    number: int = 0
    """Generation of a file of the write-ahead log, id of a run, first group of a state run."""
    last: int = 0
    """Last group of a state run."""


def classify(name: str) -> tuple[FileKind, int, int]:
    """Kind and numbers of a file name."""
    if name in (IDENTITY, LOCK):
        return ("identity" if name == IDENTITY else "lock"), 0, 0
    if name.endswith(TEMPORARY_SUFFIX):
        return "temporary", 0, 0
    if name.startswith(SPARE_PREFIX) and name.endswith(WAL_SUFFIX):
        return "spare", 0, 0
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return "unknown", 0, 0
    first, last, suffix = match.groups()
    if suffix == STATE_SUFFIX and last is not None:
        return "state", int(first, 16), int(last, 16)
    if last is None and suffix in (WAL_SUFFIX, RUN_SUFFIX):
        return ("wal" if suffix == WAL_SUFFIX else "run"), int(first, 16), 0
    return "unknown", 0, 0


def list_files(disk: Disk, directories: Directories) -> list[FoundFile]:
    """All files in all directories; what disappears while we look is left out."""
    parts = [directories.root, directories.wal, *directories.runs, directories.state]
    found: list[FoundFile] = []
    for directory in dict.fromkeys(parts):
        if not disk.exists(directory):
            continue
        for name in disk.list(directory):
            path = f"{directory}/{name}"
            if any(f"{part}/".startswith(f"{path}/") for part in parts):
                continue
            kind, number, last = classify(name)
            size = _size(disk, path)
            if size is not None:
                found.append(FoundFile(kind, path, size, number, last))
    return found


def _size(disk: Disk, path: str) -> int | None:
    try:
        file = disk.open(path, writable=False)
    except FileNotFoundError:
        return None
    except OSError:
        return 0
    try:
        return file.size()
    finally:
        file.close()
