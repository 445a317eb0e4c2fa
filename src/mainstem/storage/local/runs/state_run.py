"""State runs: files that hold what a stretch of groups says about state, the last word per key."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from mainstem.model.errors import CorruptData, UnsupportedFormat
from mainstem.storage.local.directories import TEMPORARY_SUFFIX
from mainstem.storage.local.frame import column_bytes
from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.runtime.disk import Disk, DiskFile
from mainstem.storage.sequencer.entries import StateItem
from mainstem.wire.checksum import crc32c

STATE_MAGIC = b"MSST"
STATE_VERSION = 1
STATE_SUFFIX = ".state"

_HEADER = struct.Struct("<4sHHQQqI")
_CHUNK = struct.Struct("<II")
_ITEM_OVERHEAD = 16
_encode_items = msgspec.msgpack.Encoder().encode
_decode_items = msgspec.msgpack.Decoder(list[StateItem]).decode


class StateRun(NamedTuple):
    """An open state run. Its items come sorted by scope and key; each chunk is checked before any of it is given."""

    from_: int
    to: int
    created_ms: int
    items: Iterator[StateItem]


def state_run_name(from_: int, to: int) -> str:
    """File name of the state of the groups `from_` to `to`."""
    return f"{from_:016x}-{to:016x}{STATE_SUFFIX}"


def read_state_run(disk: Disk, path: str) -> StateRun:
    """Open a state run. Raises CorruptData, here or while its items are read; and UnsupportedFormat."""
    file = disk.open(path, writable=False)
    try:
        from_, to, created_ms = _read_header(file)
    except BaseException:
        file.close()
        raise
    return StateRun(from_, to, created_ms, _read_items(file))


def is_complete(disk: Disk, path: str) -> bool:
    """Whether the file was written to its end. Looks at the frame of the file only: items are checked when they are read."""
    file = disk.open(path, writable=False)
    try:
        _read_header(file)
        for _ in _chunks(file):
            pass
    except CorruptData:
        return False
    finally:
        file.close()
    return True


def write_state_run(
    disk: Disk,
    directory: str,
    from_: int,
    to: int,
    created_ms: int,
    items: Iterable[StateItem],
    chunk_bytes: int = MergeLimits().state_chunk_bytes,  # frozen
) -> str:
    """Write, sync and name a state run; answers its path. The items must be sorted by scope and key.

    When it fails nothing is left behind, as far as the disk lets us.
    """
    path = f"{directory}/{state_run_name(from_, to)}"
    temporary = path + TEMPORARY_SUFFIX
    if disk.exists(temporary):  # what an interrupted job left behind
        disk.remove(temporary)
    replaces = disk.exists(path)
    renamed = False
    file = disk.open(temporary, create=True)
    try:
        bare = _HEADER.pack(STATE_MAGIC, STATE_VERSION, 0, from_, to, created_ms, 0)[:-4]
        position = file.write([bare, crc32c(bare).to_bytes(4, "little")], 0)
        crcs: list[int] = []
        for chunk in _encode_chunks(items, chunk_bytes):
            crc = crc32c(chunk)
            crcs.append(crc)
            position += file.write([_CHUNK.pack(len(chunk), crc), chunk], position)
        file.write([_CHUNK.pack(0, crc32c(column_bytes("I", crcs)))], position)
        file.sync()
        file.close()
        disk.rename(temporary, path)
        renamed = True
        disk.sync_directory(directory)
    except BaseException:
        file.close()
        with contextlib.suppress(OSError):
            if not renamed:
                disk.remove(temporary)
            elif not replaces:  # else it says what the one before it said, and that one may be in use
                disk.remove(path)
        raise
    return path


def _encode_chunks(items: Iterable[StateItem], chunk_bytes: int) -> Iterator[bytes]:
    iterator = iter(items)
    while True:
        chunk: list[StateItem] = []
        size = 0
        for item in iterator:
            chunk.append(item)
            size += _ITEM_OVERHEAD + len(item[0]) + len(item[1]) + len(item[2] or b"")
            if size >= chunk_bytes:
                break
        if not chunk:
            return
        yield _encode_items(chunk)


def _read_header(file: DiskFile) -> tuple[int, int, int]:
    data = file.read(_HEADER.size, 0)
    if len(data) != _HEADER.size:
        raise CorruptData(file.path, 0, "too short for a state run")
    magic, version, _, from_, to, created_ms, crc = _HEADER.unpack(data)
    if magic != STATE_MAGIC or crc32c(data[:-4]) != crc:
        raise CorruptData(file.path, 0, "header of the state run does not match its checksum")
    if version != STATE_VERSION:
        known = f"this program knows {STATE_VERSION}"
        raise UnsupportedFormat(f"{file.path} has version {version} of the state format; {known}")
    return from_, to, created_ms


def _chunks(file: DiskFile) -> Iterator[tuple[int, int, int]]:
    """Position, size and checksum of each chunk; whether they are all, the end says."""
    position = _HEADER.size
    length = file.size()
    crcs: list[int] = []
    while True:
        head = file.read(_CHUNK.size, position)
        if len(head) != _CHUNK.size:
            raise CorruptData(file.path, position, "state run has no end")
        size, crc = _CHUNK.unpack(head)
        position += _CHUNK.size
        if not size:
            if crc != crc32c(column_bytes("I", crcs)) or position != length:
                raise CorruptData(file.path, position, "end of the state run does not match its chunks")
            return
        if position + size > length:
            raise CorruptData(file.path, position, "chunk is longer than the state run")
        crcs.append(crc)
        yield position, size, crc
        position += size


def _read_items(file: DiskFile) -> Iterator[StateItem]:
    try:
        for position, size, crc in _chunks(file):
            data = file.read(size, position)
            if len(data) != size or crc32c(data) != crc:
                raise CorruptData(file.path, position, "state chunk checksum does not match")
            try:
                items = _decode_items(data)
            except msgspec.DecodeError as error:
                raise CorruptData(file.path, position, f"state does not decode: {error}") from error
            yield from items
    finally:
        file.close()
