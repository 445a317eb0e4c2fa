"""Key tables, page by page: what a look-up would find, and whether all of it is what was written."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from mainstem.model.errors import CorruptData
from mainstem.storage.local.frame import column_bytes, read_columns
from mainstem.storage.local.runs.key_index import PAGE_BYTES, PAGE_ENTRIES, encode_key_table
from mainstem.storage.runtime.disk import DiskFile
from mainstem.wire.checksum import crc32c

_COLUMNS_AT = 8


class KeyPage(NamedTuple):
    """A page that was checked."""

    position: int
    crc: int
    hashes: array[int]
    offsets: array[int]


def read_key_pages(file: DiskFile, run_id: int, position: int, entries: int) -> Iterator[KeyPage]:
    """The pages of a table. Raises CorruptData. A page is good when its entries, written again, give the same bytes."""
    while entries > 0:
        page = file.read(PAGE_BYTES, position)
        if len(page) != PAGE_BYTES:
            raise CorruptData(file.path, position, "file ends within a key table")
        count = min(entries, PAGE_ENTRIES)
        (hashes,), end = read_columns("Q", PAGE_ENTRIES, memoryview(page), _COLUMNS_AT)
        (offsets,), _ = read_columns("q", PAGE_ENTRIES, memoryview(page), end)
        found = KeyPage(position, int.from_bytes(page[:4], "little"), hashes[:count], offsets[:count])
        if encode_key_table(found.hashes, found.offsets, run_id, position)[0] != page:
            raise CorruptData(file.path, position, "key table checksum does not match")
        yield found
        entries -= count
        position += PAGE_BYTES


def check_key_table(file: DiskFile, run_id: int, position: int, entries: int, crc: int, offsets: range) -> None:
    """Raises CorruptData unless the table is whole, in order, and speaks of offsets in this range."""
    crcs: list[int] = []
    last = (-1, -1)
    for page in read_key_pages(file, run_id, position, entries):
        crcs.append(page.crc)
        pairs = list(zip(page.hashes, page.offsets, strict=True))
        if pairs[0] <= last or any(a >= b for a, b in zip(pairs, pairs[1:], strict=False)):
            raise CorruptData(file.path, page.position, "key table is out of order")
        if any(offset not in offsets for offset in page.offsets):
            raise CorruptData(file.path, page.position, "key table names an offset that is not in the run")
        last = pairs[-1]
    if crc32c(column_bytes("I", crcs)) != crc:
        raise CorruptData(file.path, position, "pages of the key table are not those that its run names")
