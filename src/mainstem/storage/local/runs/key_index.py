"""Key tables: where in a log the records with a given key are.

A table is sorted by hash and cut into pages of 4 KiB, each with a checksum of its own: a look-up reads a dozen pages, not the
table, and still believes nothing unchecked. The checksum covers run and position too, so that a page written
elsewhere by mistake does not pass.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from hashlib import blake2b

from mainstem.model.errors import CorruptData
from mainstem.storage.local.frame import column_bytes, read_columns
from mainstem.storage.runtime.disk import DiskFile
from mainstem.wire.checksum import crc32c

KEY_HASH_BYTES = 8
PAGE_BYTES = 4096
PAGE_ENTRIES = 255

_PAGE = struct.Struct("<II")
_PLACE = struct.Struct("<QQ")
_PAGE_PAD = bytes(PAGE_BYTES - _PAGE.size - 16 * PAGE_ENTRIES)


def key_hash(key: bytes) -> int:
    """What a key table is sorted by."""
    return int.from_bytes(blake2b(key, digest_size=KEY_HASH_BYTES).digest(), "little")


def table_bytes(entries: int) -> int:
    """Size of a table on disk."""
    return -(-entries // PAGE_ENTRIES) * PAGE_BYTES


def encode_key_table(hashes: array[int], offsets: array[int], run_id: int, position: int) -> tuple[bytes, int]:
    """The pages of a table that will lie at `position`, and the checksum of their checksums."""
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    pages: list[bytes] = []
    crcs: list[int] = []
    for first in range(0, len(order), PAGE_ENTRIES):
        part = order[first : first + PAGE_ENTRIES]
        unused = [0] * (PAGE_ENTRIES - len(part))
        rest = b"".join(
            (
                len(part).to_bytes(4, "little"),
                column_bytes("Q", [hashes[i] for i in part] + unused),
                column_bytes("q", [offsets[i] for i in part] + unused),
                _PAGE_PAD,
            )
        )
        crc = crc32c(rest, crc32c(_PLACE.pack(run_id, position + len(pages) * PAGE_BYTES)))
        pages.append(crc.to_bytes(4, "little") + rest)
        crcs.append(crc)
    return b"".join(pages), crc32c(column_bytes("I", crcs))


def lookup_key_table(file: DiskFile, run_id: int, position: int, entries: int, wanted: int) -> list[int]:
    """Offsets of all entries with this hash, ascending; reads a page per step of a binary search."""
    pages = table_bytes(entries) // PAGE_BYTES
    low, high = 0, pages
    while low < high:
        middle = (low + high) // 2
        hashes, _ = _read_page(file, run_id, position + middle * PAGE_BYTES)
        if hashes[-1] < wanted:
            low = middle + 1
        else:
            high = middle
    found: list[int] = []
    while low < pages:
        hashes, offsets = _read_page(file, run_id, position + low * PAGE_BYTES)
        at = bisect_left(hashes, wanted)
        while at < len(hashes) and hashes[at] == wanted:
            found.append(offsets[at])
            at += 1
        if at < len(hashes):
            break
        low += 1
    return found


def _read_page(file: DiskFile, run_id: int, position: int) -> tuple[array[int], array[int]]:
    page = memoryview(file.read(PAGE_BYTES, position))
    if len(page) != PAGE_BYTES:
        raise CorruptData(file.path, position, "file ends within a key table")
    crc, count = _PAGE.unpack_from(page)
    if crc32c(page[4:], crc32c(_PLACE.pack(run_id, position))) != crc or not 0 < count <= PAGE_ENTRIES:
        raise CorruptData(file.path, position, "key table checksum does not match")
    (hashes,), end = read_columns("Q", PAGE_ENTRIES, page, _PAGE.size)
    (offsets,), _ = read_columns("q", PAGE_ENTRIES, page, end)
    return hashes[:count], offsets[:count]


class KeyTableBuilder:
    """The keys of one log, collected while its blocks are written."""

    __slots__ = ("hashes", "offsets")

    def __init__(self) -> None:
        self.hashes: array[int] = array("Q")
        self.offsets: array[int] = array("q")

    def add(self, key: bytes, offset: int) -> None:
        """One record; offsets must ascend."""
        self.hashes.append(key_hash(key))
        self.offsets.append(offset)

    def __len__(self) -> int:
        return len(self.hashes)
