"""A disk in memory that forgets what was not synced, as real ones do.

What a power loss leaves (`SimulatedDisk.crash`):

*Content.* A file is made of sectors of 512 bytes, each written whole or not at all. Of every sector written since the
last successful sync of its file, the durable content or any later version survives, each sector by itself. So does the
length.

*Names.* Every create, rename, remove and new directory is kept or lost until the directory was synced: in some crashes
each by itself, in others as a journal would, up to one point. Operations on the same name keep their order, and a
rename is whole: the old or the new name, never neither. A rename from one directory to another is durable when both
were synced.

*A failed sync.* The system may have dropped what it could not write and will not try again: such sectors stay in doubt
even when a later sync succeeds, until they are written and synced anew.

After a killed process (`SimulatedDisk.restart`) everything that was written is still there.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Iterable, Sequence
from random import Random
from typing import Literal

from mainstem.storage.contract import Buffer
from mainstem.storage.runtime.disk import DiskUsage

SECTOR_BYTES = 512
UNLIMITED_BYTES = 1 << 50

Operation = Literal["read", "write", "sync", "name", "sync_directory"]


class Interrupted(BaseException):
    """The process is no more. Not an Exception: nothing in the engine may catch it and go on."""


class PowerLoss(Interrupted):
    """The machine stopped; what was not synced is in doubt."""


class ProcessKilled(Interrupted):
    """The process was killed; what it had written is kept by the operating system."""


class Inode:
    """Content of one file, whatever its name."""

    __slots__ = ("content", "doubtful", "earlier", "lengths")

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        """As the running system sees it."""
        self.earlier: dict[int, list[bytes]] = {}
        """Sector -> its durable content and the versions since, without the current one."""
        self.doubtful: dict[int, list[bytes]] = {}
        """The same, for sectors that a failed sync left in doubt."""
        self.lengths: list[int] = []
        """Durable length and the lengths since, without the current one."""

    def overwrite(self, data: bytes, position: int) -> None:
        """Change content, remembering what was there."""
        end = position + len(data)
        if end > len(self.content):
            self.resize(end)
        content = self.content
        for sector in range(position // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            self._remember(sector)
        content[position:end] = data

    def _remember(self, sector: int) -> None:
        at = sector * SECTOR_BYTES
        version = bytes(self.content[at : at + SECTOR_BYTES])
        versions = self.earlier.get(sector)
        if versions is None:
            self.earlier[sector] = [*self.doubtful.pop(sector, ()), version]
        else:
            versions.append(version)

    def resize(self, size: int) -> None:
        """Cut, or extend with zeros."""
        content = self.content
        old = len(content)
        if size == old:
            return
        self.lengths.append(old)
        if size > old:
            content.extend(bytes(size - old))
            return
        for sector in range(size // SECTOR_BYTES, -(-old // SECTOR_BYTES)):
            self._remember(sector)
        del content[size:]

    def make_durable(self) -> None:
        """What a successful sync does."""
        self.earlier.clear()
        self.lengths.clear()

    def doubt(self) -> None:
        """What a failed sync does: the pages count as clean, but may not have been written."""
        for sector, versions in self.earlier.items():
            self.doubtful.setdefault(sector, []).extend(versions)
        self.earlier.clear()

    def survivor(self, rng: Random, keep_share: float) -> Inode:
        """What is left of it after a power loss."""
        current = bytes(self.content)
        out = bytearray(current)
        longest = max([len(current), *self.lengths])
        out.extend(bytes(longest - len(out)))
        for uncertain in (self.earlier, self.doubtful):
            for sector, versions in uncertain.items():
                if rng.random() >= keep_share:
                    at = sector * SECTOR_BYTES
                    version = rng.choice(versions)
                    out[at : at + SECTOR_BYTES] = version.ljust(SECTOR_BYTES, b"\0")
        size = len(current)
        if self.lengths and rng.random() >= keep_share:
            size = rng.choice(self.lengths)
        return Inode(bytes(out[:size]).ljust(size, b"\0"))

    def copy(self) -> Inode:
        """The current content, all of it durable."""
        return Inode(bytes(self.content))


class NameOperation:
    """A change of names that a crash may undo."""

    __slots__ = ("inode", "source", "target", "unsynced")

    def __init__(self, inode: Inode | None, source: str | None, target: str | None) -> None:
        self.inode = inode
        """None for a directory."""
        self.source = source
        self.target = target
        self.unsynced = {posixpath.dirname(name) for name in (source, target) if name is not None}

    @property
    def names(self) -> set[str]:
        """The names that it touches."""
        return {name for name in (self.source, self.target) if name is not None}

    def apply(self, names: dict[str, Inode], directories: dict[str, None]) -> None:
        """Do it to a set of names."""
        if self.inode is None:
            assert self.target is not None
            directories[self.target] = None
            return
        # One name per inode, wherever earlier operations that were lost would have left it.
        for name in [name for name, inode in names.items() if inode is self.inode]:
            del names[name]
        if self.target is not None:
            names[self.target] = self.inode


class SimulatedFile:
    """An open file."""

    __slots__ = ("_closed", "_disk", "_inode", "_writable", "path")

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode, *, writable: bool) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._writable = writable
        self._closed = False

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all; an interruption or a fault leaves some first part written."""
        self._check_open()
        assert self._writable, f"{self.path} is open for reading only"
        data = b"".join(buffers)
        disk = self._disk
        trouble = disk.enter("write")
        if trouble is None:
            trouble = disk.no_space(self._inode, position + len(data))
        if trouble is not None:
            cut = disk.rng.randrange(len(data) // SECTOR_BYTES + 1) * SECTOR_BYTES
            fits = max(0, disk.room_for(self._inode) - position)
            self._inode.overwrite(data[: min(cut, fits)], position)
            raise trouble
        self._inode.overwrite(data, position)
        return len(data)

    def read(self, size: int, position: int) -> bytes:
        """What the running system sees."""
        self._check_open()
        trouble = self._disk.enter("read")
        if trouble is not None:
            raise trouble
        return bytes(self._inode.content[position : position + size])

    def read_into(self, buffer: memoryview, position: int) -> int:
        """As `read`, into a buffer."""
        data = self.read(len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def sync(self) -> None:
        """Make content and length durable."""
        self._check_open()
        disk = self._disk
        trouble = disk.enter("sync")
        if trouble is None:
            if not disk.lies_about_sync:
                self._inode.make_durable()
            return
        if isinstance(trouble, OSError):
            self._inode.doubt()
        elif disk.rng.random() < 0.5:
            self._inode.make_durable()
        raise trouble

    def size(self) -> int:
        """Current length."""
        self._check_open()
        return len(self._inode.content)

    def truncate(self, size: int) -> None:
        """Cut or extend."""
        self._check_open()
        trouble = self._disk.enter("write")
        if trouble is not None:
            raise trouble
        trouble = self._disk.no_space(self._inode, size)
        if trouble is not None:
            raise trouble
        self._inode.resize(size)

    def fill(self, size: int) -> None:
        """Extend with zeros; as far as there is room."""
        self._check_open()
        trouble = self._disk.enter("write")
        if trouble is None:
            trouble = self._disk.no_space(self._inode, size)
        if trouble is not None:
            room = self._disk.room_for(self._inode)
            if size > len(self._inode.content):
                self._inode.resize(min(size, room))
            raise trouble
        if size > len(self._inode.content):
            self._inode.resize(size)

    def reserve(self, size: int) -> None:
        """The same here."""
        self.fill(size)

    def close(self) -> None:
        """Twice is harmless."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)


class SimulatedDisk:
    """Files and directories in memory, with the failures of real ones.

    `interrupt_at` counts operations: when `operations` reaches it, that one is broken off by the exception
    `interruption`, and so is every later one.
    """

    def __init__(self, rng: Random | None = None, *, mounts: Sequence[str] = ()) -> None:
        self.rng = rng or Random(0)  # noqa: S311  # a seed, not a secret
        self.operations = 0
        self.interrupt_at: int | None = None
        self.interruption: type[Interrupted] = PowerLoss
        self.capacity = UNLIMITED_BYTES
        self.lies_about_sync = False
        """Negative control: syncs are reported as done and do nothing."""
        self.faults: list[Operation] = []
        """The injected input/output errors that have struck."""
        self.refused_for_space = 0
        self._armed: dict[Operation, int] = {}
        self._mounts = tuple(mounts)
        self._names: dict[str, Inode] = {}
        self._directories: dict[str, None] = {"": None, "/": None}
        self._durable_names: dict[str, Inode] = {}
        self._durable_directories: dict[str, None] = {"": None, "/": None}
        self._journal: list[NameOperation] = []
        self._dead = False

    # Faults

    def arm(self, operation: Operation, after: int = 1) -> None:
        """Let the `after`-th operation of this kind from now fail once with EIO."""
        assert after > 0
        self._armed[operation] = after

    def disarm(self) -> None:
        """No armed fault any more; a full disk stays full."""
        self._armed.clear()

    def heal(self) -> None:
        """No armed fault any more, and room without end."""
        self.disarm()
        self.capacity = UNLIMITED_BYTES

    @property
    def is_limited(self) -> bool:
        """Whether it can become full."""
        return self.capacity < UNLIMITED_BYTES

    def enter(self, operation: Operation) -> BaseException | None:
        """Count an operation; answers what goes wrong in the midst of it."""
        if self._dead:
            raise self.interruption("the machine is off")
        self.operations += 1
        if self.interrupt_at is not None and self.operations >= self.interrupt_at:
            self._dead = True
            return self.interruption(f"at operation {self.operations}")
        left = self._armed.get(operation)
        if left is not None:
            if left == 1:
                del self._armed[operation]
                self.faults.append(operation)
                return OSError(errno.EIO, os.strerror(errno.EIO))
            self._armed[operation] = left - 1
        return None

    def no_space(self, inode: Inode, size: int) -> OSError | None:
        """An error if the file cannot grow to this size."""
        if size <= len(inode.content) or size <= self.room_for(inode):
            return None
        self.refused_for_space += 1
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def room_for(self, inode: Inode) -> int:
        """The size to which a file can grow."""
        return max(len(inode.content), len(inode.content) + self.capacity - self.used)

    @property
    def used(self) -> int:
        """Bytes of all files."""
        return sum(len(inode.content) for inode in self._names.values())

    # Disk

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimulatedFile:
        """Open a file; with `create` it must not exist yet."""
        inode = self._names.get(path)
        if create:
            if inode is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            self._check_directory(posixpath.dirname(path))
            inode = Inode()
            self._change_name(inode, None, path)
        elif inode is None:
            raise self._missing(path)
        return SimulatedFile(self, path, inode, writable=writable or create)

    def exists(self, path: str) -> bool:
        """Whether the path names a file or directory."""
        return path in self._names or path.rstrip("/") in self._directories

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""
        directory = directory.rstrip("/")
        self._check_directory(directory)
        paths = [*self._names, *self._directories]
        return sorted(posixpath.basename(path) for path in paths if path and posixpath.dirname(path) == directory)

    def make_directory(self, path: str) -> None:
        """Create a directory, and its parents, where missing."""
        path = path.rstrip("/")
        if path in self._directories:
            return
        self.make_directory(posixpath.dirname(path))
        self._change_name(None, None, path)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing what had it."""
        inode = self._names.get(source)
        if inode is None:
            raise self._missing(source)
        self._check_directory(posixpath.dirname(target))
        if not self.same_filesystem(source, target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
        self._change_name(inode, source, target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        inode = self._names.get(path)
        if inode is None:
            raise self._missing(path)
        self._change_name(inode, path, None)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        path = path.rstrip("/")
        self._check_directory(path)
        trouble = self.enter("sync_directory")
        if trouble is None or (isinstance(trouble, Interrupted) and self.rng.random() < 0.5):
            for operation in self._journal:
                operation.unsynced.discard(path)
            while self._journal and not self._journal[0].unsynced:
                self._journal.pop(0).apply(self._durable_names, self._durable_directories)
        if trouble is not None:
            raise trouble

    def usage(self, path: str) -> DiskUsage:
        """By the capacity that was set."""
        return DiskUsage(self.capacity, max(0, self.capacity - self.used))

    is_shared = False

    def publish(self, paths: Sequence[str]) -> None:
        """As LocalDisk."""

    def bring(self, paths: Sequence[str]) -> None:
        """As LocalDisk."""

    def same_filesystem(self, first: str, second: str) -> bool:
        """By mount point."""
        return self._mount(first) == self._mount(second)

    def _mount(self, path: str) -> str:
        return max(
            (mount for mount in self._mounts if path == mount or path.startswith(mount + "/")), default="", key=len
        )

    def _change_name(self, inode: Inode | None, source: str | None, target: str | None) -> None:
        trouble = self.enter("name")
        if trouble is None or (isinstance(trouble, Interrupted) and self.rng.random() < 0.5):
            operation = NameOperation(inode, source, target)
            operation.apply(self._names, self._directories)
            self._journal.append(operation)
        if trouble is not None:
            raise trouble

    def _check_directory(self, path: str) -> None:
        if path not in self._directories:
            raise self._missing(path)

    def _missing(self, path: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    # The end of a process, and what comes after

    def crash(self, rng: Random) -> SimulatedDisk:
        """Power loss: this disk is dead; answers what is found when the machine starts again."""
        self._dead = True
        return self.survivor(rng)

    def survivor(self, rng: Random) -> SimulatedDisk:
        """What a power loss would leave now; this disk lives on."""
        keep_share = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        names = dict(self._durable_names)
        directories = dict(self._durable_directories)
        for operation in self._kept_operations(rng, keep_share):
            operation.apply(names, directories)
        after = self._successor(rng)
        after._directories = {path: None for path in directories if self._reachable(path, directories)}
        after._names = {
            path: inode.survivor(rng, keep_share)
            for path, inode in names.items()
            if posixpath.dirname(path) in after._directories
        }
        # No block is used again before the loss of what it held is durable: what comes back has its room.
        after.capacity = max(after.capacity, after.used)
        after._make_names_durable()
        return after

    def _kept_operations(self, rng: Random, keep_share: float) -> Iterable[NameOperation]:
        journal = self._journal
        if rng.random() < 0.5:
            cut = rng.randint(0, len(journal))
            kept = [place < cut or not operation.unsynced for place, operation in enumerate(journal)]
        else:
            kept = [not operation.unsynced or rng.random() < keep_share for operation in journal]
        needed: set[str] = set()
        for place in range(len(journal) - 1, -1, -1):
            if kept[place] or not needed.isdisjoint(journal[place].names):
                kept[place] = True
                needed |= journal[place].names
        return [operation for place, operation in enumerate(journal) if kept[place]]

    def _reachable(self, path: str, directories: dict[str, None]) -> bool:
        while path not in ("", "/"):
            if path not in directories:
                return False
            path = posixpath.dirname(path)
        return True

    def restart(self, rng: Random) -> SimulatedDisk:
        """The process was killed: this disk is dead; answers the same files for the next process."""
        self._dead = True
        after = self._successor(rng)
        after._names = self._names
        after._directories = self._directories
        after._durable_names = self._durable_names
        after._durable_directories = self._durable_directories
        after._journal = self._journal
        return after

    def copy(self) -> SimulatedDisk:
        """An independent copy of the current content, all of it durable; this one lives on."""
        after = self._successor(Random(0))  # noqa: S311
        after._names = {path: inode.copy() for path, inode in self._names.items()}
        after._directories = dict(self._directories)
        after._make_names_durable()
        return after

    def _successor(self, rng: Random) -> SimulatedDisk:
        after = SimulatedDisk(rng, mounts=self._mounts)
        after.capacity = self.capacity
        after.lies_about_sync = self.lies_about_sync
        return after

    def _make_names_durable(self) -> None:
        self._durable_names = dict(self._names)
        self._durable_directories = dict(self._directories)

    # For tests that look at files, or damage them

    def paths(self) -> Sequence[str]:
        """All files."""
        return sorted(self._names)

    def content(self, path: str) -> bytes:
        """What is in a file."""
        return bytes(self._names[path].content)

    def replace(self, path: str, content: bytes) -> None:
        """Put another content in its place, durably."""
        self._names[path].content[:] = content

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        """Flip one bit, as a decaying disk does."""
        self._names[path].content[position] ^= 1 << bit
