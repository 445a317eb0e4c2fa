"""Blocks of objects in memory, so that reads close to each other ask the object store once."""

from __future__ import annotations

import threading
from collections import OrderedDict

from mainstem.model.errors import StoreUnreachable
from mainstem.storage.shared.ports import ObjectStore

READ_AHEAD_BLOCKS_MAX = 8


class BlockCache:
    """A bounded number of bytes, the least recently used block goes first. Used by several threads."""

    def __init__(self, objects: ObjectStore, bytes_max: int, block_bytes: int) -> None:
        self._objects = objects
        self._bytes_max = bytes_max
        self._block_bytes = block_bytes
        self._lock = threading.Lock()
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self.bytes = 0
        self.requests = 0
        """To the object store."""

    def read(self, key: str, size: int, start: int, length: int, ahead: int) -> bytes:
        """A part of an object of that size; where blocks are missing, `ahead` more of them are asked for."""
        end = min(start + length, size)
        if start >= end:
            return b""
        step = self._block_bytes
        first, last = start // step, (end - 1) // step
        found = self._find(key, first, last)
        missing = [number for number in range(first, last + 1) if number not in found]
        if missing:
            low = missing[0]
            high = min(missing[-1] + min(ahead, READ_AHEAD_BLOCKS_MAX), (size - 1) // step)
            data = self.fetch(key, low * step, min((high + 1) * step, size) - low * step)
            for number in range(low, high + 1):
                found[number] = data[(number - low) * step : (number - low + 1) * step]
            self._keep(key, {number: found[number] for number in range(low, high + 1)})
        if first == last:
            return found[first][start - first * step : end - first * step]
        joined = b"".join(found[number] for number in range(first, last + 1))
        return joined[start - first * step : end - first * step]

    def fetch(self, key: str, start: int, length: int) -> bytes:
        """From the object store, all of what was asked for."""
        self.requests += 1
        data = self._objects.get_range(key, start, length)
        if len(data) != length:
            raise StoreUnreachable(f"{key}: {len(data)} of {length} bytes at {start} came")
        return data

    def forget(self, key: str) -> None:
        """The object is needed no longer."""
        with self._lock:
            for place in [place for place in self._blocks if place[0] == key]:
                self.bytes -= len(self._blocks.pop(place))

    def _find(self, key: str, first: int, last: int) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        with self._lock:
            for number in range(first, last + 1):
                block = self._blocks.get((key, number))
                if block is not None:
                    self._blocks.move_to_end((key, number))
                    found[number] = block
        return found

    def _keep(self, key: str, blocks: dict[int, bytes]) -> None:
        with self._lock:
            for number, block in blocks.items():
                known = self._blocks.pop((key, number), b"")
                self._blocks[key, number] = block
                self.bytes += len(block) - len(known)
            while self.bytes > self._bytes_max and self._blocks:
                _, block = self._blocks.popitem(last=False)
                self.bytes -= len(block)
