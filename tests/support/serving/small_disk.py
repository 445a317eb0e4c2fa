"""A file system of a few megabytes, for tests that fill a disk."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SMALL_FILES = ("--set", "storage.wal_file_bytes=4194304", "--set", "storage.disk_reserve_bytes=4194304")
"""A sixteenth of the defaults, so that a disk of a few megabytes is to the broker what one of a gigabyte would be."""
DISK_MEGABYTES = 64


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """An empty tmpfs at `path`; where the machine does not let us mount one, the test is skipped."""
    path.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("a small disk cannot be mounted: there is no mount command")
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)
