"""Ids of deleted logs, which are never used again: bitmaps of 65,536, because some systems delete logs all day."""

from __future__ import annotations

from pyroaring import BitMap

from mainstem.storage.sequencer.engine_scopes import encode_number

PAGE_BITS = 16
_LOW = (1 << PAGE_BITS) - 1


class DeletedLogs:
    """A set of log ids, stored page by page."""

    def __init__(self) -> None:
        self._pages: dict[int, BitMap] = {}

    def __contains__(self, log: int) -> bool:
        page = self._pages.get(log >> PAGE_BITS)
        return page is not None and log & _LOW in page

    def add(self, log: int) -> tuple[bytes, bytes]:
        """Add an id; answers key and value of its page as state."""
        number = log >> PAGE_BITS
        page = self._pages.setdefault(number, BitMap())
        page.add(log & _LOW)
        page.run_optimize()  # what is deleted is mostly dense: a few bytes, not 8 KiB with every deletion
        return encode_number(number), page.serialize()

    def replay(self, key: bytes, value: bytes) -> None:
        """Take a page from state."""
        self._pages[int.from_bytes(key, "big")] = BitMap.deserialize(value)
