"""A log moves from a local directory into the shared store, or back.

The formats are the same: files and groups are copied as they are.
No broker serves the log meanwhile: the directory is locked, and the shard is taken. What was copied is read again and
compared, and a start must find in the copy what it finds in the original. The original stays as it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from mainstem.model.errors import DiskError
from mainstem.storage.local.directories import Directories, DirectoryLock
from mainstem.storage.local.engine import Beginning, find
from mainstem.storage.local.frame import SECTOR_BYTES
from mainstem.storage.local.recovery import Recovered
from mainstem.storage.local.runs.stored_file import WalFile
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.local.wal.stored_group import decode_group
from mainstem.storage.runtime.disk import LocalDisk
from mainstem.storage.shared.block_cache import BlockCache
from mainstem.storage.shared.hydration import hydrate
from mainstem.storage.shared.ports import Claim, ObjectStore, ShippedGroup, object_key
from mainstem.storage.shared.postgresql import PostgresCatalog
from mainstem.storage.shared.settings import ClusterSettings
from mainstem.storage.shared.shared_disk import UPLOAD_CHUNK_BYTES, SharedDisk

MOVE_LEASE_MS = 86_400_000
"""Nobody renews the lease of a move."""
STATEMENT_BYTES_MAX = 1 << 20
MOVER = "storage move"


class Moved(NamedTuple):
    """How much was moved."""

    files: int
    groups: int
    bytes: int


class _Right:
    """To a shard, for the time of a move."""

    def __init__(self, catalog: PostgresCatalog, shard: str, claim: Claim) -> None:
        self.shard = shard
        self.term = claim.epoch
        self.catalog_ms = catalog.now_ms


class Relocation:
    """Between one data directory and one shard."""

    def __init__(
        self,
        settings: EngineSettings,
        cluster: ClusterSettings,
        catalog: PostgresCatalog,
        objects: ObjectStore,
        tell: Callable[[str], None],
    ) -> None:
        if settings.wal_directory or settings.run_directories:
            raise DiskError("only a log with all its files below one data directory can be moved")
        self._settings = settings
        self._root = settings.data_directory
        self._cluster = cluster
        self._shard = cluster.shard
        self._catalog = catalog
        self._objects = objects
        self._tell = tell
        self._disk = LocalDisk()

    def _take(self) -> Claim:
        claim = self._catalog.take(self._shard, MOVER, MOVE_LEASE_MS)
        if claim is None:
            raise DiskError(f"a broker owns shard {self._shard}: end the brokers of the cluster first")
        return claim

    def _shared_disk(self, root: str, claim: Claim) -> SharedDisk:
        cluster = self._cluster
        return SharedDisk(
            local=self._disk,
            root=root,
            catalog=self._catalog,
            objects=self._objects,
            ownership=_Right(self._catalog, self._shard, claim),
            blocks=BlockCache(self._objects, cluster.block_cache_bytes, cluster.block_bytes),
            block_bytes=cluster.block_bytes,
            copies_bytes_max=1 << 62,
        )

    # Into the shared store

    def into_cluster(self) -> Moved:
        """Copy a directory into a shard that holds nothing yet. Raises kinds of MainstemError, OSError."""
        lock = DirectoryLock(self._root)
        try:
            found = find(self._disk, self._settings)
            claim = self._take()
            try:
                if self._catalog.groups(self._shard, 0, 1) or self._catalog.files(self._shard):
                    raise DiskError(f"shard {self._shard} holds a log already: name another one with cluster.shard")
                self._catalog.found(self._shard, claim.epoch, found.node, found.recovered.next_generation)
                moved = self._copy(found, claim._replace(node=found.node))
                self._tell("verifying")
                self._verify(found.recovered, claim._replace(node=found.node))
            finally:
                self._catalog.release(self._shard, claim.epoch)
        finally:
            lock.release()
        return moved

    def _copy(self, found: Beginning, claim: Claim) -> Moved:
        recovered = found.recovered
        paths = [*recovered.state_runs, *(run.file.path for run in recovered.runs)]
        disk = self._shared_disk(self._root, claim)
        size = 0
        for number, path in enumerate(paths, start=1):
            self._tell(f"file {number} of {len(paths)}")
            disk.publish([path])
            size += self._compare(disk, path)
        groups = 0
        batch: list[ShippedGroup] = []
        waiting = 0
        for wal_file in recovered.wal:
            for group in self._groups(wal_file, claim):
                batch.append(group)
                groups += 1
                waiting += 0 if group.data is None else len(group.data)
                if waiting >= STATEMENT_BYTES_MAX or group.data is None:
                    self._catalog.append(self._shard, claim.epoch, batch)
                    size += waiting
                    batch, waiting = [], 0
        if batch:
            self._catalog.append(self._shard, claim.epoch, batch)
        return Moved(len(paths), groups, size + waiting)

    def _compare(self, disk: SharedDisk, path: str) -> int:
        """Read an object again; answers its size."""
        file = disk.published(path)
        source = self._disk.open(path, writable=False)
        try:
            for start in range(0, file.size, UPLOAD_CHUNK_BYTES):
                length = min(UPLOAD_CHUNK_BYTES, file.size - start)
                if self._objects.get_range(file.key, start, length) != source.read(length, start):
                    raise DiskError(f"{path} differs from its object {file.key} at {start}")
        finally:
            source.close()
        return file.size

    def _groups(self, wal_file: WalFile, claim: Claim) -> Iterator[ShippedGroup]:
        content = memoryview(wal_file.file.read(wal_file.end, 0))
        position, sequence = SECTOR_BYTES, wal_file.first
        while sequence <= wal_file.last:
            group = decode_group(content, position, wal_file.generation, sequence)
            data = bytes(content[group.position : group.end])
            if len(data) <= self._cluster.inline_bytes_max:
                yield ShippedGroup(sequence, wal_file.generation, group.position, data)
            else:
                created_ms = self._catalog.now_ms()
                key = object_key(self._shard, "wal", created_ms, f"{claim.epoch:x}-{sequence:x}-0")
                self._objects.put(key, (data,))
                yield ShippedGroup(sequence, wal_file.generation, group.position, None, key, created_ms)
            position, sequence = group.end, sequence + 1

    def _verify(self, recovered: Recovered, claim: Claim) -> None:
        """Bring the shard here as its next owner will, beside the directory."""
        trial = f"{self._root}/trial"
        shutil.rmtree(trial, ignore_errors=True)
        settings = msgspec.structs.replace(self._settings, data_directory=trial)
        try:
            hydrate(
                disk=self._disk,
                directories=Directories(settings),
                catalog=self._catalog,
                objects=self._objects,
                shard=self._shard,
                claim=claim,
            )
            _check_same(recovered, find(self._shared_disk(trial, claim), settings, claim.generation).recovered)
        finally:
            shutil.rmtree(trial, ignore_errors=True)

    # Back

    def to_directory(self) -> Moved:
        """Copy a shard into a directory that does not exist. Raises kinds of MainstemError, OSError."""
        if Path(self._root).exists() and any(Path(self._root).iterdir()):
            raise DiskError(f"{self._root} is not empty")
        claim = self._take()
        try:
            directories = Directories(self._settings)
            groups = hydrate(
                disk=self._disk,
                directories=directories,
                catalog=self._catalog,
                objects=self._objects,
                shard=self._shard,
                claim=claim,
            )
            shared = self._shared_disk(self._root, claim)
            files = self._catalog.files(self._shard)
            for number, file in enumerate(files, start=1):
                self._tell(f"file {number} of {len(files)}")
                shared.bring([f"{self._root}/{file.path}"])
            self._tell("verifying")
            # What it finds in the shared store must be what it finds in the directory alone.
            expected = find(shared, self._settings, claim.generation).recovered
            for path in Path(self._root).rglob("*"):
                if path.is_file():
                    _sync(self._disk, str(path))
            for directory in (*directories.runs, directories.wal, directories.state, self._root):
                self._disk.sync_directory(directory)
            _check_same(expected, find(self._disk, self._settings, claim.generation).recovered)
        finally:
            self._catalog.release(self._shard, claim.epoch)
        return Moved(len(files), groups, sum(file.size for file in files))


def _sync(disk: LocalDisk, path: str) -> None:
    file = disk.open(path)
    file.sync()
    file.close()


def _check_same(here: Recovered, there: Recovered) -> None:
    """What a start begins with."""
    for what, one, other in (
        ("state", here.scopes, there.scopes),
        ("groups", here.next_sequence, there.next_sequence),
        ("producers", here.producers.keys(), there.producers.keys()),
        ("ends of logs", here.tail_nexts, there.tail_nexts),
        ("runs", sorted(run.index.id for run in here.runs), sorted(run.index.id for run in there.runs)),
    ):
        if one != other:
            raise DiskError(f"the copy has other {what} than the original")
