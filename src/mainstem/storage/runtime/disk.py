"""The disk, as little of it as the engine needs, so that a simulated one can stand in its place.

Paths are strings, absolute or relative to the process. Errors are OSError, as from the operating system. Nothing is
durable until the file was synced, and no name is until its directory was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mainstem.storage.contract import Buffer

IOV_MAX = 1024
ZERO_CHUNK_BYTES = 1 << 20


class DiskUsage(NamedTuple):
    """Size of the file system that holds a directory, and what is free of it for us."""

    total: int
    free: int


class DiskFile(Protocol):
    """An open file, addressed by position."""

    path: str

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all buffers from `position` on; answers how many bytes that were."""

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill a buffer from `position`; answers how many bytes that were, fewer than it takes only at the end of the file."""

    def sync(self) -> None:
        """Make the content durable (fdatasync). A failure is final."""

    def size(self) -> int:
        """Current length."""

    def truncate(self, size: int) -> None:
        """Cut or extend to `size`."""

    def fill(self, size: int) -> None:
        """Write zeros up to `size`, so that later writes allocate nothing; not synced."""

    def reserve(self, size: int) -> None:
        """Extend to `size`, with room on the disk for all of it: at once, but later syncs cost more than after `fill`."""

    def close(self) -> None:
        """Give the descriptor back."""


class Disk(Protocol):
    """Files and directories."""

    is_shared: bool
    """Whether finished files outlive this disk: they are published, and no other process may finish one in place."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file; with `create` it must not exist yet."""

    def exists(self, path: str) -> bool:
        """Whether the path names a file or directory."""

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""

    def make_directory(self, path: str) -> None:
        """Create a directory, and its parents, where missing."""

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing what had it. Same file system only."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def usage(self, path: str) -> DiskUsage:
        """How full the file system is."""

    def same_filesystem(self, first: str, second: str) -> bool:
        """Whether a rename from one directory to the other can work."""

    def publish(self, paths: Sequence[str]) -> None:
        """Make finished files as durable as what will name them: called before the commit that does. Raises StoreUnreachable."""

    def bring(self, paths: Sequence[str]) -> None:
        """Have files where another process of this machine can read them, under their own paths. Raises StoreUnreachable."""


class LocalFile:
    """A real file."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o640)

    @property
    def fd(self) -> int:
        """For code that can write without us."""
        return self._fd

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all buffers; several system calls where there are many, or where one falls short."""
        total = 0
        fd = self._fd
        for first in range(0, len(buffers), IOV_MAX):
            part = buffers[first : first + IOV_MAX]
            size = sum(map(len, part))
            written = os.pwritev(fd, part, position)
            while written < size:
                rest = memoryview(b"".join(part))[written:]
                count = os.pwrite(fd, rest, position + written)
                if count == 0:
                    raise OSError(f"wrote nothing to {self.path} at {position + written}")
                written += count
            position += size
            total += size
        return total

    def read(self, size: int, position: int) -> bytes:
        """One pread, more where it falls short before the end."""
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        count = len(data)
        while count < size:
            more = os.pread(self._fd, size - count, position + count)
            if not more:
                break
            parts.append(more)
            count += len(more)
        return b"".join(parts)

    def read_into(self, buffer: memoryview, position: int) -> int:
        """One preadv, more where it falls short before the end."""
        count = os.preadv(self._fd, [buffer], position)
        while 0 < count < len(buffer):
            more = os.preadv(self._fd, [buffer[count:]], position + count)
            if not more:
                break
            count += more
        return count

    def sync(self) -> None:
        """Fdatasync."""
        os.fdatasync(self._fd)

    def size(self) -> int:
        """From fstat."""
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        """Ftruncate."""
        os.ftruncate(self._fd, size)

    def fill(self, size: int) -> None:
        """Written zeros, not fallocate: an unwritten extent makes every later sync a journal commit."""
        zeros = bytes(ZERO_CHUNK_BYTES)
        position = self.size()
        while position < size:
            count = min(ZERO_CHUNK_BYTES, size - position)
            position += os.pwrite(self._fd, memoryview(zeros)[:count], position)

    def reserve(self, size: int) -> None:
        """Fallocate."""
        os.posix_fallocate(self._fd, 0, size)

    def close(self) -> None:
        """Close the descriptor; twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.close()


class LocalDisk:
    """The operating system's files."""

    is_shared = False

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> LocalFile:
        """Open a file; with `create` it must not exist yet."""
        flags = os.O_RDWR if writable or create else os.O_RDONLY
        return LocalFile(path, flags | (os.O_CREAT | os.O_EXCL if create else 0))

    def exists(self, path: str) -> bool:
        """Whether the path names a file or directory."""
        return os.path.exists(path)  # noqa: PTH110

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""
        return sorted(os.listdir(directory))  # noqa: PTH208

    def make_directory(self, path: str) -> None:
        """Create a directory, and its parents, where missing."""
        os.makedirs(path, exist_ok=True)  # noqa: PTH103

    def rename(self, source: str, target: str) -> None:
        """Atomic within one file system."""
        os.rename(source, target)  # noqa: PTH104

    def remove(self, path: str) -> None:
        """Unlink."""
        os.unlink(path)  # noqa: PTH108

    def sync_directory(self, path: str) -> None:
        """Fsync of the directory itself."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def usage(self, path: str) -> DiskUsage:
        """From statvfs, as df tells it: what is kept for root is neither used nor to be had, so it is left out of the whole."""
        stat = os.statvfs(path)
        used = stat.f_blocks - stat.f_bfree
        return DiskUsage((used + stat.f_bavail) * stat.f_frsize, stat.f_bavail * stat.f_frsize)

    def publish(self, paths: Sequence[str]) -> None:
        """They were synced when they got their names."""

    def bring(self, paths: Sequence[str]) -> None:
        """They are here."""

    def same_filesystem(self, first: str, second: str) -> bool:
        """By device number."""
        return os.stat(first).st_dev == os.stat(second).st_dev  # noqa: PTH116
