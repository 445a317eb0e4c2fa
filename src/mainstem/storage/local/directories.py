"""The data directory: its parts, its identity, and the lock that keeps a second broker out."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import IO

import msgspec

from mainstem.model.errors import CorruptData, DirectoryLocked, UnsupportedFormat
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.runtime.disk import Disk, LocalDisk

FORMAT_VERSION = 1
IDENTITY = "identity"
LOCK = "LOCK"
TEMPORARY_SUFFIX = ".tmp"
HOLDER_BYTES = 32
"""Of the lock file: the number of the process that holds it."""


class Identity(msgspec.Struct):
    """What makes the directory this node's."""

    format: int
    node: str


class Directories:
    """Where the parts are."""

    def __init__(self, settings: EngineSettings) -> None:
        self.root = settings.data_directory
        self.wal = settings.wal_directory or f"{self.root}/wal"
        self.runs = list(settings.run_directories) or [f"{self.root}/runs"]
        self.state = f"{self.root}/state"

    def make(self, disk: Disk) -> None:
        """Create what is missing, durably."""
        for path in (self.root, self.wal, self.state, *self.runs):
            if not disk.exists(path):
                disk.make_directory(path)
                disk.sync_directory(path.rpartition("/")[0] or "/")
        # Those that are there may be of a broker that was killed before it had synced their names.
        disk.sync_directory(self.root)

    def name_of(self, path: str) -> str:
        """How state names a directory: by its place below the data directory, where it is there, so that this can be moved."""
        return f"./{path.removeprefix(self.root).lstrip('/')}" if path.startswith(f"{self.root}/") else path

    def path_of(self, name: str) -> str:
        """The directory that state names."""
        return f"{self.root}/{name.removeprefix('./')}" if name.startswith("./") else name

    def all(self) -> list[str]:
        """Every directory that takes space."""
        return [self.root, self.wal, *self.runs]


def encode_identity(version: int, node: bytes) -> bytes:
    """The content of the identity file."""
    return msgspec.json.encode(Identity(version, node.hex()))


def load_identity(disk: Disk, root: str, new_node: bytes) -> bytes:
    """The node's id; made at the first start."""
    path = f"{root}/{IDENTITY}"
    if disk.exists(path):
        file = disk.open(path, writable=False)
        data = file.read(4096, 0)
        file.close()
        try:
            identity = msgspec.json.decode(data, type=Identity)
            node = bytes.fromhex(identity.node)
        except (msgspec.DecodeError, ValueError) as error:
            raise CorruptData(path, 0, f"identity does not decode: {error}") from error
        if identity.format > FORMAT_VERSION:
            raise UnsupportedFormat(f"{path} has format {identity.format}; this program knows {FORMAT_VERSION}")
        return node
    temporary = path + TEMPORARY_SUFFIX
    if disk.exists(temporary):
        disk.remove(temporary)
    file = disk.open(temporary, create=True)
    file.write([encode_identity(FORMAT_VERSION, new_node)], 0)
    file.sync()
    file.close()
    disk.rename(temporary, path)
    disk.sync_directory(root)
    return new_node


class DirectoryLock:
    """An exclusive lock on a data directory, released when the process ends, however it ends."""

    def __init__(self, root: str) -> None:
        path = f"{root}/{LOCK}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._file: IO[str] = os.fdopen(descriptor, "r", encoding="ascii")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = self._file.read(HOLDER_BYTES).strip() or "unknown"
            self._file.close()
            raise DirectoryLocked(f"data directory {root} is in use by another broker (process {holder})") from error
        # Over what was there, because on a full disk a file that is cut may find no room to grow again. Nobody needs the number.
        with contextlib.suppress(OSError):
            os.pwrite(self._file.fileno(), f"{os.getpid():<{HOLDER_BYTES}}".encode(), 0)

    def release(self) -> None:
        """Let another broker in."""
        self._file.close()


def lock_directory(disk: Disk, root: str) -> DirectoryLock | None:
    """Lock a real directory; a simulated disk has one user by construction."""
    return DirectoryLock(root) if isinstance(disk, LocalDisk) else None
