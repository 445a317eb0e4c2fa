"""A disk whose finished files outlive it: runs and state runs are objects, of which the local disk has copies.

The write-ahead log and what is being written stay plain local files. A file is finished when it was published: it never
changes from then on, and is there for the next owner too. A copy may go at any time; reads then ask the object store for the part
they need.

Nothing is adopted here: a file that another process changes in place cannot be published before it is named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from mainstem.model.errors import StoreUnreachable
from mainstem.storage.contract import Buffer
from mainstem.storage.runtime.disk import Disk, DiskFile, DiskUsage
from mainstem.storage.shared.block_cache import BlockCache
from mainstem.storage.shared.ports import Catalog, LateUpload, ObjectStore, SharedFile, object_key

UPLOAD_CHUNK_BYTES = 8 << 20
LATE_UPLOADS_MAX = 3
FETCHED_SUFFIX = ".tmp"


class ShardRight(Protocol):
    """The right to change a shard."""

    shard: str
    term: int

    @property
    def catalog_ms(self) -> Callable[[], int]:
        """The catalog's clock."""


class PublishedFile:
    """A finished file, read from its copy, or from the object store where there is none."""

    def __init__(self, path: str, file: SharedFile, blocks: BlockCache, block_bytes: int) -> None:
        self.path = path
        self.file = file
        self.copy: DiskFile | None = None
        self._blocks = blocks
        self._block_bytes = block_bytes
        self._next = -1
        """Where the last read ended: one that begins there is part of a scan."""
        self._ahead = 0

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        copy = self.copy
        if copy is not None:
            return copy.read(size, position)
        size = min(size, self.file.size - position)
        if size <= 0:
            return b""
        self._ahead = min(2 * self._ahead + 1, 8) if position == self._next else 0
        self._next = position + size
        if size >= 2 * self._block_bytes:
            return self._blocks.fetch(self.file.key, position, size)
        return self._blocks.read(self.file.key, self.file.size, position, size, self._ahead)

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill a buffer; less only at the end."""
        copy = self.copy
        if copy is not None:
            return copy.read_into(buffer, position)
        data = self.read(len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def size(self) -> int:
        """As it was published."""
        return self.file.size

    def sync(self) -> None:
        """It is durable."""

    def close(self) -> None:
        """A copy is closed when nobody reads it any more."""
        self.copy = None

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Never."""
        raise AssertionError(f"{self.path} is finished")

    def truncate(self, size: int) -> None:
        """Never."""
        raise AssertionError(f"{self.path} is finished")

    fill = reserve = truncate


class SharedDisk:
    """The local disk below a data directory, and the shard's files beside it. Used by several threads."""

    is_shared = True

    def __init__(
        self,
        *,
        local: Disk,
        root: str,
        catalog: Catalog,
        objects: ObjectStore,
        ownership: ShardRight,
        blocks: BlockCache,
        block_bytes: int,
        copies_bytes_max: int,
    ) -> None:
        self._local = local
        self._root = root
        self._catalog = catalog
        self._objects = objects
        self._ownership = ownership
        self._blocks = blocks
        self._block_bytes = block_bytes
        self._copies_bytes_max = copies_bytes_max
        self._lock = threading.Lock()
        self._uploads = 0
        self._files: dict[str, SharedFile] = {}
        """Published files by their full path."""
        self._open: dict[str, PublishedFile] = {}
        for file in catalog.files(ownership.shard):
            self._files[f"{root}/{file.path}"] = file

    # Files

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """A published file is opened for reading, whatever is asked for."""
        file = None if create else self._files.get(path)
        if file is None:
            return self._local.open(path, create=create, writable=writable)
        opened = PublishedFile(path, file, self._blocks, self._block_bytes)
        with self._lock:
            if self._local.exists(path):
                opened.copy = self._local.open(path, writable=False)
            self._open[path] = opened
        return opened

    def published(self, path: str) -> SharedFile:
        """What the catalog says of a file that was published."""
        return self._files[path]

    def exists(self, path: str) -> bool:
        """Here or there."""
        return path in self._files or self._local.exists(path)

    def list(self, directory: str) -> list[str]:
        """Names here and there, sorted."""
        names = {path.rpartition("/")[2] for path in self._files if path.rpartition("/")[0] == directory}
        return sorted(names.union(self._local.list(directory)))

    def remove(self, path: str) -> None:
        """The copy, and what the catalog says of it; the object goes later. Raises StoreUnreachable, OwnershipLost."""
        file = self._files.get(path)
        if file is None:
            self._local.remove(path)
            return
        self._catalog.remove_files(self._ownership.shard, self._ownership.term, [file.path])
        with self._lock:
            del self._files[path]
            self._open.pop(path, None)
            if self._local.exists(path):
                self._local.remove(path)
        self._blocks.forget(file.key)

    def publish(self, paths: Sequence[str]) -> None:
        """Upload files, then name them all at once; then let old copies go."""
        files: list[SharedFile] = []
        for attempt in range(LATE_UPLOADS_MAX):
            files = [self._upload(path) for path in paths]
            try:
                self._catalog.add_files(self._ownership.shard, self._ownership.term, files)
                break
            except LateUpload as error:
                if attempt == LATE_UPLOADS_MAX - 1:
                    raise StoreUnreachable(f"uploads take too long: {error}") from error
        with self._lock:
            self._files.update(zip(paths, files, strict=True))
        self._drop_copies()

    def _upload(self, path: str) -> SharedFile:
        created_ms = self._ownership.catalog_ms()
        with self._lock:
            self._uploads += 1
            number = self._uploads
        kind = path.removeprefix(f"{self._root}/").replace("/", "-")
        key = object_key(self._ownership.shard, "files", created_ms, f"{self._ownership.term:x}-{number:x}-{kind}")
        source = self._local.open(path, writable=False)
        try:
            size = source.size()
            self._objects.put(key, _chunks(source, size))
        finally:
            source.close()
        return SharedFile(path.removeprefix(f"{self._root}/"), key, size, created_ms)

    def bring(self, paths: Sequence[str]) -> None:
        """Make copies of what has none."""
        for path in paths:
            file = self._files.get(path)
            if file is None or self._local.exists(path):
                continue
            unfinished = path + FETCHED_SUFFIX
            if self._local.exists(unfinished):
                self._local.remove(unfinished)
            target = self._local.open(unfinished, create=True)
            try:
                for start in range(0, file.size, UPLOAD_CHUNK_BYTES):
                    length = min(UPLOAD_CHUNK_BYTES, file.size - start)
                    target.write([self._blocks.fetch(file.key, start, length)], start)
            finally:
                target.close()
            self._local.rename(unfinished, path)

    def _drop_copies(self) -> None:
        """Remove copies, the oldest first, until there is little enough of them. No merge is under way."""
        with self._lock:
            copies = [path for path in self._files if self._local.exists(path)]
            total = sum(self._files[path].size for path in copies)
            for path in copies:
                if total <= self._copies_bytes_max:
                    return
                total -= self._files[path].size
                opened = self._open.get(path)
                if opened is not None:
                    opened.copy = None  # its last reader closes it
                self._local.remove(path)

    # As the local disk

    def make_directory(self, path: str) -> None:
        """Create a directory, and its parents, where missing."""
        self._local.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        """Of files that are not published."""
        assert source not in self._files
        self._local.rename(source, target)

    def sync_directory(self, path: str) -> None:
        """Names here need not last."""

    def usage(self, path: str) -> DiskUsage:
        """How full the local file system is."""
        return self._local.usage(path)

    def same_filesystem(self, first: str, second: str) -> bool:
        """As the local disk says."""
        return self._local.same_filesystem(first, second)


def _chunks(source: DiskFile, size: int) -> Iterator[bytes]:
    for start in range(0, size, UPLOAD_CHUNK_BYTES):
        yield source.read(min(UPLOAD_CHUNK_BYTES, size - start), start)
    if not size:
        yield b""
