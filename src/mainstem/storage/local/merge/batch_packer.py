"""Batches of sealed files into blocks of runs: what a merge does for every single one of them, and so compiled."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from mainstem.wire.checksum import crc32c

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import append_small, number_at, put_i64, small_number_at

    # C function of batch_packer.pxd
    ask_for_batch: Any = None

    def copy_from(content: memoryview, position: int, size: int, block: bytearray, at: int) -> None:
        """A piece of the content to a place in the block."""
        block[at : at + size] = content[position : position + size]

    put_base = put_i64

if TYPE_CHECKING:
    from mainstem.storage.local.merge.run_series import RunSeries
    from mainstem.storage.local.merge.sealed_file import SealedFile
    from mainstem.storage.local.runs.shared_entries import LogEntries


class OffsetsOverlap(Exception):
    """Two batches of one log claim the same offset."""


def indices_by_log(logs: array[int]) -> dict[int, array[int]]:
    """Where each log stands among them."""
    found: dict[int, array[int]] = {}
    for index, log in enumerate(logs):
        known = found.get(log)
        if known is None:
            known = found[log] = array("I")
        append_small(known, index)
    return found


def reaching(indices: array[int], bases: array[int], counts: array[int], start: int) -> array[int]:
    """Those of the batches that reach an offset or more."""
    alive = array("I")
    for at in range(len(indices)):
        index = small_number_at(indices, at)
        if number_at(bases, index) + small_number_at(counts, index) > start:
            append_small(alive, index)
    return alive


class BatchPacker:
    """Puts batches of one log after the other into blocks of about `block_bytes`, in the order of their offsets."""

    __slots__ = ("_batches", "_block", "_block_bytes", "_filled", "_first", "_next", "_series", "_time")

    def __init__(self, series: RunSeries, block_bytes: int) -> None:
        self._series = series
        self._block_bytes = block_bytes
        self._block = bytearray()
        """The next one, and room behind it."""
        self._filled = self._batches = 0
        self._first = self._next = 0
        self._time = -1

    def begin_log(self) -> None:
        """What follows is of another log."""
        self._next = 0

    def take(self, file: SealedFile, indices: array[int]) -> None:
        """These batches of a file come next. Raises OffsetsOverlap."""
        bases, counts, times, positions, sizes = file.bases, file.counts, file.times, file.positions, file.sizes
        content = file.content
        total = len(content)
        count = len(indices)
        for at in range(count):
            if cython.compiled:
                ask_for_batch(bases, counts, times, positions, sizes, content, indices, at)
            index = small_number_at(indices, at)
            base, position, size = number_at(bases, index), number_at(positions, index), small_number_at(sizes, index)
            assert position + size <= total
            self._add(content, position, size, base, small_number_at(counts, index), number_at(times, index), False)

    def take_entries(self, file: SealedFile, entries: LogEntries, begin: int, stop: int, first_unit: int) -> None:
        """A stretch of a log's entries in a file comes next, references too. Raises OffsetsOverlap."""
        counts, times, positions, sizes = file.counts, file.times, file.positions, file.sizes
        content = file.content
        total = len(content)
        for at in range(begin, stop):
            index = small_number_at(entries.units, at) - first_unit
            position, size = number_at(positions, index), small_number_at(sizes, index)
            assert position + size <= total
            base, is_foreign = number_at(entries.firsts, at), small_number_at(entries.foreign, at) != 0
            self._add(
                content, position, size, base, small_number_at(counts, index), number_at(times, index), is_foreign
            )

    def _add(
        self, content: memoryview, position: int, size: int, base: int, count: int, time: int, is_foreign: bool
    ) -> None:
        """One batch; a foreign one carries the base offset of another log."""
        if base < self._next:
            raise OffsetsOverlap
        if self._filled + size > self._block_bytes:
            self.flush()
        self._next = base + count
        if size > self._block_bytes:
            self._add_large(content[position : position + size], base, time, is_foreign)
            return
        if not self._filled:
            self._first, self._time = base, time
        elif time > self._time:
            self._time = time
        if self._filled + size > len(self._block):
            self._block += bytes(self._filled + size)
        copy_from(content, position, size, self._block, self._filled)
        if is_foreign:
            put_base(self._block, self._filled, base)
        self._filled += size
        self._batches += 1

    def _add_large(self, batch: memoryview, base: int, time: int, is_foreign: bool) -> None:
        """A block of its own, from where it lies unless it must be changed."""
        if is_foreign:
            placed = bytearray(batch)
            put_base(placed, 0, base)
            batch = memoryview(placed)
        self._series.add_block(base, self._next, time, batch, crc32c(batch), 1)

    def flush(self) -> int:
        """Hand over what is there; answers where the log goes on."""
        if self._filled:
            block = bytes(memoryview(self._block)[: self._filled])
            self._series.add_block(self._first, self._next, self._time, block, crc32c(block), self._batches)
            self._filled = self._batches = 0
        return self._next
