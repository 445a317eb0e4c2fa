"""A run as a merge reads it: log by log, in chunks, every block checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mainstem.model.errors import CorruptData, InvalidBatch
from mainstem.storage.contract import Buffer
from mainstem.storage.local.merge.job import RunInput
from mainstem.storage.local.runs.run_blocks import UNPLACED, place_batches
from mainstem.storage.local.runs.run_file import RunIndex
from mainstem.storage.runtime.disk import Disk
from mainstem.wire.checksum import crc32c
from mainstem.wire.record_batch import batches_in, read_header


class Piece(NamedTuple):
    """Whole batches of one log, one after the other."""

    first: int
    next: int
    time: int
    data: Buffer
    crc: int | None
    """Of the data, where it is known."""
    batches: int


class RunSource:
    """An input of a merge of runs."""

    def __init__(self, disk: Disk, run_input: RunInput, chunk_bytes: int) -> None:
        self.path = run_input.path
        self._file = disk.open(run_input.path, writable=False)
        try:
            self.index = RunIndex.load(self._file)
            if self.index.id != run_input.id:
                raise CorruptData(self.path, 0, f"run {self.index.id} where {run_input.id} must be")
        except BaseException:
            self._file.close()
            raise
        self._chunk_bytes = chunk_bytes
        """Most that is read at once, unless one block is larger."""
        self._chunk = memoryview(b"")
        self._chunk_at = 0

    def pieces(self, slot: int, start: int) -> Iterator[Piece]:
        """The blocks of a log, by offset, without batches that lie wholly below `start`. Raises CorruptData."""
        index = self.index
        log = index.logs[slot]
        for block in range(index.block_for(slot, start), index.blocks(slot).stop):
            yield self.piece(block, start, log)

    def piece(self, block: int, start: int, log: int) -> Piece:
        """One block that reaches `start`, with the offsets of its log. Raises CorruptData."""
        index = self.index
        data = self.read_block(block, log)
        first = index.block_firsts[block]
        crc: int | None = index.block_crcs[block]
        if index.is_shared and index.block_foreign[block]:
            data = self._place(data, block, log)
            crc = None
        if first < start:
            return self._cut(data, start, log, index.block_positions[block])
        return Piece(first, index.block_nexts[block], index.block_times[block], data, crc, index.block_batches[block])

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()

    def read_block(self, block: int, log: int) -> memoryview:
        """The bytes of a block as they are stored. Raises CorruptData."""
        index = self.index
        position, size = index.block_positions[block], index.block_sizes[block]
        at = position - self._chunk_at
        if at < 0 or at + size > len(self._chunk):
            self._read_chunk(block)
            at = 0
        data = self._chunk[at : at + size]
        if len(data) != size or crc32c(data) != index.block_crcs[block]:
            raise CorruptData(self.path, position, "block checksum does not match", (log,))
        return data

    def _place(self, data: memoryview, block: int, log: int) -> memoryview:
        placed = bytearray(data)
        if place_batches(placed, self.index.block_firsts[block]) != self.index.block_nexts[block]:
            raise CorruptData(self.path, self.index.block_positions[block], UNPLACED, (log,))
        return memoryview(placed)

    def _read_chunk(self, block: int) -> None:
        # Blocks that follow in the file too are read along. In an adopted run only few do: the batches of a log are scattered.
        positions, sizes = self.index.block_positions, self.index.block_sizes
        position = positions[block]
        end = position + sizes[block]
        for following in range(block + 1, len(positions)):
            if positions[following] != end or end + sizes[following] - position > self._chunk_bytes:
                break
            end += sizes[following]
        self._chunk = memoryview(self._file.read(end - position, position))
        self._chunk_at = position

    def _cut(self, data: memoryview, start: int, log: int, position: int) -> Piece:
        """The batches of a block that reach `start` or more."""
        try:
            headers = [(at, read_header(data, at)) for at, _ in batches_in(data)]
        except InvalidBatch as error:
            raise CorruptData(self.path, position, f"block does not hold batches: {error}", (log,)) from error
        alive = [(at, header) for at, header in headers if header.next_offset > start]
        at, first = alive[0]
        last = alive[-1][1]
        time = max(header.max_timestamp for _, header in alive)
        return Piece(first.base_offset, last.next_offset, time, data[at:], None, len(alive))
