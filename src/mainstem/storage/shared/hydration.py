"""The write-ahead log of a shard, written out again as local files for its new owner.

What a local directory held before is thrown away: a group that was written there and never shipped must not come back.
"""

from __future__ import annotations

from mainstem.model.errors import CorruptData
from mainstem.storage.local.directories import FORMAT_VERSION, IDENTITY, Directories, encode_identity
from mainstem.storage.local.frame import FileHeader, encode_file_header
from mainstem.storage.local.runs.stored_file import wal_name
from mainstem.storage.runtime.disk import Disk, DiskFile
from mainstem.storage.shared.ports import Catalog, Claim, ObjectStore, ShippedGroup

GROUPS_PER_READ = 256


def hydrate(
    *, disk: Disk, directories: Directories, catalog: Catalog, objects: ObjectStore, shard: str, claim: Claim
) -> int:
    """Fill the directories; answers how many groups there were. Raises CorruptData, StoreUnreachable, OSError."""
    directories.make(disk)
    for directory in (directories.wal, directories.state, *directories.runs):
        for name in disk.list(directory):
            disk.remove(f"{directory}/{name}")
    _write_identity(disk, directories.root, claim.node)
    count = 0
    last = 0
    writer = _FileWriter(disk, directories.wal, claim.node)
    try:
        while groups := catalog.groups(shard, last, GROUPS_PER_READ):
            for group in groups:
                if last and group.sequence != last + 1:
                    raise CorruptData(f"shard {shard}", group.sequence, f"groups from {last + 1} on are missing")
                last = group.sequence
                writer.write(group, _content(objects, group))
            count += len(groups)
    finally:
        writer.close()
    return count


def _content(objects: ObjectStore, group: ShippedGroup) -> bytes:
    if group.data is not None:
        return bytes(group.data)
    assert group.key is not None
    return objects.get(group.key)


def _write_identity(disk: Disk, root: str, node: bytes) -> None:
    path = f"{root}/{IDENTITY}"
    if disk.exists(path):
        disk.remove(path)
    file = disk.open(path, create=True)
    file.write([encode_identity(FORMAT_VERSION, node)], 0)
    file.close()


class _FileWriter:
    """Files of the write-ahead log, one after the other."""

    def __init__(self, disk: Disk, directory: str, node: bytes) -> None:
        self._disk = disk
        self._directory = directory
        self._node = node
        self._generation = -1
        self._file: DiskFile | None = None

    def write(self, group: ShippedGroup, content: bytes) -> None:
        """A group where it was; the first one of a file brings the file's header."""
        if group.generation != self._generation or self._file is None:
            self.close()
            self._generation = group.generation
            self._file = self._disk.open(f"{self._directory}/{wal_name(group.generation)}", create=True)
            first = group.sequence
            self._file.write([encode_file_header(FileHeader(group.generation, first, first - 1, self._node, 0))], 0)
        self._file.write([content], group.position)

    def close(self) -> None:
        """The file that is open, if one is."""
        if self._file is not None:
            self._file.close()
            self._file = None
