"""Whether a broker works on a data directory, found out without touching its lock."""

from __future__ import annotations

import os
from pathlib import Path

from mainstem.storage.local.directories import LOCK

LOCKS = Path("/proc/locks")


def broker_process(root: str, locks: Path = LOCKS) -> int | None:
    """Id of the process that holds the directory, or None.

    Where the system lists its locks we look there; elsewhere the process that wrote its number into the lock file last counts
    while it lives, though it may be another one by now.
    """
    path = Path(root) / LOCK
    try:
        inode = path.stat().st_ino
        written = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    process = int(written) if written.isdigit() else None
    try:
        rows = [row.split() for row in locks.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError):
        return process if process is not None and _is_alive(process) else None
    # number: FLOCK ADVISORY WRITE process major:minor:inode start end. Some file systems show another device than stat does.
    for row in rows:
        if len(row) >= 6 and row[1] == "FLOCK" and row[5].rpartition(":")[2] == str(inode):
            return process if process is not None else int(row[4])
    return None


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
