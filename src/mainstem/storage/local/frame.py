"""Frames of the write-ahead log: bytes <-> values, as docs/storage-format.md draws them. Pure."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mainstem.model.errors import UnsupportedFormat
from mainstem.storage.contract import Buffer
from mainstem.storage.sequencer.entries import FLAG_CONTROL as FLAG_CONTROL
from mainstem.storage.sequencer.entries import FLAG_PRODUCER as FLAG_PRODUCER
from mainstem.storage.sequencer.entries import FLAG_TRANSACTIONAL as FLAG_TRANSACTIONAL
from mainstem.storage.sequencer.entries import StateItem as StateItem
from mainstem.wire.checksum import crc32c

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import crc32c_at, has_crc32c, put_le32, put_le64

if TYPE_CHECKING:
    from mainstem.storage.sequencer.commit_group import DataEntry

SECTOR_BYTES = 512
FILE_MAGIC = b"MSWL"
FILE_VERSION = 1
FRAME_MAGIC = 0x4D53

DATA, REF, STATE, COMMIT = 1, 2, 3, 4
KIND_NAMES = {DATA: "DATA", REF: "REF", STATE: "STATE", COMMIT: "COMMIT"}

_FILE = struct.Struct("<4sHHQQQ16sqI")
_FRAME = struct.Struct("<HBBIIIQQQ")
_COMMIT = struct.Struct("<IIq")
FRAME_BYTES = _FRAME.size
COMMIT_BYTES = FRAME_BYTES + _COMMIT.size
_HEADER_BYTES = FRAME_BYTES
_CRC_AT = 4

_SWAP = sys.byteorder == "big"
_encode_state = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(list[StateItem]).decode


class BadFrame(Exception):
    """The bytes are not the frame that must be here. Whether torn or corrupt, recovery decides."""


class FileHeader(NamedTuple):
    """First sector of a file."""

    generation: int
    first: int
    proven: int
    node: bytes
    created_ms: int


class Frame(NamedTuple):
    """A frame whose header and head have been checked."""

    kind: int
    position: int
    generation: int
    sequence: int
    proven: int
    crc: int
    head: memoryview
    body_position: int
    body_bytes: int

    @property
    def end(self) -> int:
        """Position after it."""
        return self.body_position + self.body_bytes


class DataHead(NamedTuple):
    """The columns of a DATA frame."""

    logs: Sequence[int]
    bases: Sequence[int]
    times: Sequence[int]
    sizes: Sequence[int]
    counts: Sequence[int]
    crcs: Sequence[int]
    flags: Sequence[int]


class RefHead(NamedTuple):
    """The columns of a REF frame."""

    logs: Sequence[int]
    bases: Sequence[int]
    times: Sequence[int]
    sources: Sequence[int]
    source_bases: Sequence[int]
    sizes: Sequence[int]
    counts: Sequence[int]
    crcs: Sequence[int]


class CommitHead(NamedTuple):
    """What closes a group."""

    frames: int
    crc: int
    time_ms: int


_DATA_TYPES = "QqqIIIB"
_DATA_ENTRY_BYTES = 3 * 8 + 3 * 4 + 1
_REF_TYPES = "QqqQqIII"


def column_bytes(typecode: str, values: Iterable[int]) -> bytes:
    """A column as it is stored."""
    column = array(typecode, values)
    if _SWAP:
        column.byteswap()
    return column.tobytes()


def read_columns(types: str, count: int, data: memoryview, position: int) -> tuple[list[array[int]], int]:
    """Columns of `count` values each, and the position after them. Raises BadFrame when they do not fit."""
    columns: list[array[int]] = []
    for typecode in types:
        column = array(typecode)
        end = position + count * column.itemsize
        if end > len(data):
            raise BadFrame("columns are longer than the frame")
        column.frombytes(data[position:end])
        if _SWAP:
            column.byteswap()
        columns.append(column)
        position = end
    return columns, position


def _encode_columns(types: str, columns: Sequence[Sequence[int]]) -> bytes:
    count = len(columns[0])
    parts = [count.to_bytes(4, "little")]
    parts += [column_bytes(typecode, column) for typecode, column in zip(types, columns, strict=True)]
    return b"".join(parts)


def _decode_columns(types: str, head: memoryview) -> list[array[int]]:
    if len(head) < 4:
        raise BadFrame("head is too short")
    count = int.from_bytes(head[:4], "little")
    columns, end = read_columns(types, count, head, 4)
    if end != len(head):
        raise BadFrame("head is longer than its columns")
    return columns


def encode_data_head(columns: DataHead) -> bytes:
    """Head of a DATA frame."""
    return _encode_columns(_DATA_TYPES, columns)


def encode_data_entries(entries: list[DataEntry]) -> tuple[bytes, int]:
    """Head of a DATA frame of batches that were sequenced, and the bytes of all of them."""
    if not cython.compiled:
        bases, times, sizes, counts, crcs, flags, states, _ = zip(*entries, strict=True)
        logs = [state.log for state in states]
        return encode_data_head(DataHead(logs, bases, times, sizes, counts, crcs, flags)), sum(sizes)
    count = len(entries)
    head = bytearray(4 + _DATA_ENTRY_BYTES * count)
    data = head
    put_le32(data, 0, count)
    body_bytes = 0
    for index, entry in enumerate(entries):
        base, time, size, records, crc, flag, log_state, _ = entry
        state = log_state
        put_le64(data, 4 + 8 * index, state.log)
        put_le64(data, 4 + 8 * (count + index), base)
        put_le64(data, 4 + 8 * (2 * count + index), time)
        put_le32(data, 4 + 24 * count + 4 * index, size)
        put_le32(data, 4 + 28 * count + 4 * index, records)
        put_le32(data, 4 + 32 * count + 4 * index, crc)
        data[4 + 36 * count + index] = flag
        body_bytes += size
    return bytes(head), body_bytes


def decode_data_head(head: memoryview) -> DataHead:
    """Columns of a DATA frame."""
    return DataHead(*_decode_columns(_DATA_TYPES, head))


def encode_ref_head(columns: RefHead) -> bytes:
    """Head of a REF frame."""
    return _encode_columns(_REF_TYPES, columns)


def decode_ref_head(head: memoryview) -> RefHead:
    """Columns of a REF frame."""
    return RefHead(*_decode_columns(_REF_TYPES, head))


def encode_state_head(items: Sequence[StateItem]) -> bytes:
    """Head of a STATE frame."""
    return _encode_state(items)


def decode_state_head(head: memoryview) -> list[StateItem]:
    """Mutations of a STATE frame."""
    try:
        return _decode_state(head)
    except msgspec.DecodeError as error:
        raise BadFrame(f"state does not decode: {error}") from error


def decode_commit_head(head: memoryview) -> CommitHead:
    """What a COMMIT frame says."""
    if len(head) != _COMMIT.size:
        raise BadFrame("commit frame of a wrong size")
    return CommitHead(*_COMMIT.unpack(head))


def frame_checksum(header: bytes, head: Buffer) -> int:
    """Over the header with a zero in its place (generation and sequence are in it), and the head."""
    return crc32c(head, crc32c(header))


def encode_frame(
    kind: int, head: bytes, body_bytes: int, generation: int, sequence: int, proven: int
) -> tuple[bytes, int]:
    """Header and head of a frame, and its checksum; the body follows."""
    if cython.compiled and has_crc32c():
        return _encode_native(kind, head, body_bytes, generation, sequence, proven)
    bare = _FRAME.pack(FRAME_MAGIC, kind, 0, 0, len(head), body_bytes, generation, sequence, proven)
    crc = frame_checksum(bare, head)
    header = _FRAME.pack(FRAME_MAGIC, kind, 0, crc, len(head), body_bytes, generation, sequence, proven)
    return header + head, crc


def _encode_native(
    kind: int, head: bytes, body_bytes: int, generation: int, sequence: int, proven: int
) -> tuple[bytes, int]:
    """The same, compiled, where the processor has an instruction for the checksum."""
    frame = bytearray(_HEADER_BYTES) + head
    size = len(frame)
    data = frame
    put_le32(data, 0, FRAME_MAGIC | kind << 16)
    put_le32(data, 8, size - _HEADER_BYTES)
    put_le32(data, 12, body_bytes)
    put_le64(data, 16, generation)
    put_le64(data, 24, sequence)
    put_le64(data, 32, proven)
    crc = crc32c_at(data, 0, size)
    put_le32(data, _CRC_AT, crc)
    return bytes(frame), crc


def encode_commit(crcs: Sequence[int], time_ms: int, generation: int, sequence: int, proven: int) -> bytes:
    """The frame that closes a group whose frames have these checksums."""
    head = _COMMIT.pack(len(crcs), crc32c(column_bytes("I", crcs)), time_ms)
    return encode_frame(COMMIT, head, 0, generation, sequence, proven)[0]


def decode_frame(data: memoryview, position: int, generation: int) -> Frame:
    """The frame at `position` of a file's content; raises BadFrame. The body is not checked here."""
    head_position = position + FRAME_BYTES
    if head_position > len(data):
        raise BadFrame("file ends within a frame header")
    magic, kind, flags, crc, head_bytes, body_bytes, own_generation, sequence, proven = _FRAME.unpack_from(
        data, position
    )
    if magic != FRAME_MAGIC or kind not in KIND_NAMES or flags:
        raise BadFrame("not a frame")
    if own_generation != generation:
        raise BadFrame(f"frame of generation {own_generation}, not {generation}")
    body_position = head_position + head_bytes
    if body_position + body_bytes > len(data):
        raise BadFrame("frame is longer than the file")
    head = data[head_position:body_position]
    bare = _FRAME.pack(magic, kind, 0, 0, head_bytes, body_bytes, own_generation, sequence, proven)
    if frame_checksum(bare, head) != crc:
        raise BadFrame("frame checksum does not match")
    return Frame(kind, position, own_generation, sequence, proven, crc, head, body_position, body_bytes)


def frame_began(data: memoryview, position: int, generation: int) -> bool:
    """Whether a frame of this generation was begun here, whatever became of it."""
    if position + FRAME_BYTES > len(data):
        return False
    fields = _FRAME.unpack_from(data, position)
    return bool(fields[0] == FRAME_MAGIC and fields[6] == generation)


def encode_file_header(header: FileHeader) -> bytes:
    """One sector."""
    bare = _FILE.pack(FILE_MAGIC, FILE_VERSION, 0, *header, 0)[:-4]
    return (bare + crc32c(bare).to_bytes(4, "little")).ljust(SECTOR_BYTES, b"\0")


def decode_file_header(sector: bytes, path: str) -> FileHeader | None:
    """None when no header was ever completed here; raises UnsupportedFormat for a newer version."""
    if len(sector) < _FILE.size:
        return None
    magic, version, _, generation, first, proven, node, created_ms, crc = _FILE.unpack_from(sector)
    if magic != FILE_MAGIC or crc32c(sector[: _FILE.size - 4]) != crc:
        return None
    if version > FILE_VERSION:
        raise UnsupportedFormat(
            f"{path} has version {version} of the write-ahead log; this program knows {FILE_VERSION}"
        )
    return FileHeader(generation, first, proven, node, created_ms)


def pad_to_sector(size: int) -> int:
    """How many bytes are missing to a whole number of sectors."""
    return -size % SECTOR_BYTES
