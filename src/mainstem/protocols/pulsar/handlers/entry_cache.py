"""Entries as they were sent, for consumers that keep up: what is published now is mostly read at once, by each subscription."""

from __future__ import annotations

from collections import OrderedDict

ENTRY_BYTES = 200
"""Memory of an entry, besides its content."""


class EntryCache:
    """The newest, by log and first offset."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._entries: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bytes = 0

    def put(self, log: int, first: int, entry: bytes) -> None:
        """One more; the oldest go for it."""
        if not self._bytes_max:
            return
        self._entries[log, first] = entry
        self._bytes += len(entry) + ENTRY_BYTES
        while self._bytes > self._bytes_max:
            _, gone = self._entries.popitem(last=False)
            self._bytes -= len(gone) + ENTRY_BYTES

    def get(self, log: int, first: int) -> bytes | None:
        """None: it is made anew of its records."""
        return self._entries.get((log, first))
