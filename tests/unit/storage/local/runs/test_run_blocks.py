"""Neighbouring blocks are read and checked together, and every bad one is found."""

from __future__ import annotations

import random
from array import array
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mainstem.storage.local.runs.run_blocks import bad_block, neighbours_end, place_batches, read_blocks
from mainstem.storage.runtime.disk import LocalDisk
from mainstem.wire.record_batch import batches_in, encode_batch, read_header

# Runs of equal sizes are what the compiled check takes three at a time.
SIZES = st.lists(st.tuples(st.integers(0, 70), st.integers(1, 5)), min_size=1, max_size=6).map(
    lambda runs: [size for size, count in runs for _ in range(count)]
)


def blocks_of(sizes: list[int], seed: int = 0) -> tuple[bytearray, array[int], array[int]]:
    rng = random.Random(seed)
    pieces = [rng.randbytes(size) for size in sizes]
    return bytearray(b"".join(pieces)), array("I", sizes), array("I", map(crc32c, pieces))


@given(SIZES, st.data())
def test_blocks_match_their_checksums_and_one_flipped_bit_is_found_in_its_block(sizes, data):
    content, size_column, crcs = blocks_of(sizes)
    first = data.draw(st.integers(0, len(sizes) - 1))
    stop = data.draw(st.integers(first, len(sizes)))
    part = content[sum(sizes[:first]) : sum(sizes[:stop])]
    assert bad_block(memoryview(part), size_column, crcs, first, stop) == -1
    if part:
        at = data.draw(st.integers(0, len(part) - 1))
        part[at] ^= 1 << data.draw(st.integers(0, 7))
        block, end = first, sizes[first]
        while at >= end:
            block += 1
            end += sizes[block]
        assert bad_block(memoryview(part).toreadonly(), size_column, crcs, first, stop) == block


@pytest.mark.parametrize("wrong", range(7))
def test_a_wrong_checksum_is_found(wrong):
    content, sizes, crcs = blocks_of([64 << 10] * 7)
    crcs[wrong] ^= 1
    assert bad_block(memoryview(content), sizes, crcs, 0, 7) == wrong


def test_neighbours_end_at_a_gap_and_at_the_limit():
    positions, sizes = array("Q", [512, 612, 712, 900, 1000]), array("I", [100, 100, 100, 100, 50])
    assert neighbours_end(positions, sizes, 0, 5, 1 << 40) == 3
    assert neighbours_end(positions, sizes, 0, 5, 200) == 2
    assert neighbours_end(positions, sizes, 0, 5, 199) == 1
    assert neighbours_end(positions, sizes, 0, 2, 1 << 40) == 2
    assert neighbours_end(positions, sizes, 3, 5, 150) == 5
    assert neighbours_end(positions, sizes, 0, 5, 1) == 1, "a block is taken however large it is"


class OtherFile:
    """A file that is not of this machine, as a simulated one is."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read_into(self, view: memoryview, position: int) -> int:
        piece = self._content[position : position + len(view)]
        view[: len(piece)] = piece
        return len(piece)


class Scattered:
    """Blocks in a file, some of them side by side, in the order of their numbers."""

    def __init__(self, sizes: list[int], gaps: list[int], path: Path) -> None:
        self.content, self.sizes, self.crcs = blocks_of(sizes)
        self.positions = array("Q")
        self.stored = bytearray(512)
        at = 0
        for size, gap in zip(sizes, gaps, strict=True):
            self.stored += bytes(gap)
            self.positions.append(len(self.stored))
            self.stored += self.content[at : at + size]
            at += size
        self.path = path

    def read(self, kind: str, first: int, stop: int) -> tuple[int, bytes]:
        view = memoryview(bytearray(sum(self.sizes[first:stop])))
        if kind == "other":
            file = OtherFile(self.stored)
            return read_blocks(file, view, self.positions, self.sizes, self.crcs, first, stop), bytes(view)
        self.path.write_bytes(self.stored)
        opened = LocalDisk().open(str(self.path), writable=False)
        try:
            return read_blocks(opened, view, self.positions, self.sizes, self.crcs, first, stop), bytes(view)
        finally:
            opened.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("blocks") / "run"


KINDS = pytest.mark.parametrize("kind", ["local", "other"])
BLOCKS = st.lists(st.tuples(st.integers(1, 70), st.sampled_from([0, 0, 3])), min_size=1, max_size=20)


@KINDS
@given(BLOCKS, st.data())
def test_blocks_are_read_from_wherever_they_lie(kind, path, blocks, data):
    scattered = Scattered([size for size, _ in blocks], [gap for _, gap in blocks], path)
    first = data.draw(st.integers(0, len(blocks) - 1))
    stop = data.draw(st.integers(first, len(blocks)))
    before = sum(scattered.sizes[:first])
    assert scattered.read(kind, first, stop) == (
        -1,
        bytes(scattered.content[before : before + sum(scattered.sizes[first:stop])]),
    )
    if first < stop:
        bad = data.draw(st.integers(first, stop - 1))
        scattered.stored[scattered.positions[bad] + data.draw(st.integers(0, scattered.sizes[bad] - 1))] ^= 4
        assert scattered.read(kind, first, stop)[0] == bad


@KINDS
@given(BLOCKS, st.data())
def test_a_file_that_ends_early_is_told_by_the_block_that_is_not_whole(kind, path, blocks, data):
    scattered = Scattered([size for size, _ in blocks], [gap for _, gap in blocks], path)
    cut = data.draw(st.integers(0, len(blocks) - 1))
    left = data.draw(st.integers(0, scattered.sizes[cut] - 1))
    del scattered.stored[scattered.positions[cut] + left :]
    assert scattered.read(kind, 0, len(blocks))[0] == cut


@KINDS
@pytest.mark.parametrize("wrong", [None, 0, 9, 39])
def test_large_blocks_are_read_and_checked_in_steps(kind, path, wrong):
    scattered = Scattered([64 << 10] * 40, [0] * 17 + [512] + [0] * 22, path)
    if wrong is not None:
        scattered.stored[scattered.positions[wrong] + (64 << 10) - 1] ^= 1
    bad, content = scattered.read(kind, 0, 40)
    assert bad == (-1 if wrong is None else wrong)
    if wrong is None:
        assert content == scattered.content


def test_a_disk_that_fails_is_an_error_and_not_damage(path):
    scattered = Scattered([100], [0], path)
    path.write_bytes(scattered.stored)
    opened = LocalDisk().open(str(path), writable=False)
    opened.close()
    view = memoryview(bytearray(100))
    with pytest.raises(OSError, match=r"Bad file descriptor|could not be read"):
        read_blocks(opened, view, scattered.positions, scattered.sizes, scattered.crcs, 0, 1)


# Blocks that hold other logs' offsets


def foreign_block(counts: list[int]) -> bytearray:
    """Batches with offsets of other logs, in no order."""
    block = bytearray()
    for number, count in enumerate(counts):
        batch = encode_batch([(i, 5, None, b"v", ()) for i in range(count)])
        batch[:8] = (number * 7919 % 1000).to_bytes(8, "big")
        block += batch
    return block


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(0, 1 << 62))
def test_batches_are_placed_one_behind_the_other(counts, first):
    block = foreign_block(counts)
    before = bytes(block)
    assert place_batches(memoryview(block), first) == first + sum(counts)
    places = [at for at, _ in batches_in(block)]
    assert [read_header(block, at).base_offset for at in places] == [
        first + sum(counts[:n]) for n in range(len(counts))
    ]
    for at in places:
        block[at : at + 8] = before[at : at + 8]
    assert block == before, "nothing else has changed"


def test_an_empty_block_has_no_offsets():
    assert place_batches(bytearray(), 5) == 5


@pytest.mark.parametrize("length", [-1, 0, 48, 1 << 30, -(1 << 31), (1 << 31) - 1])
def test_what_is_not_a_batch_is_not_placed(length):
    block = foreign_block([1, 1])
    (_, _), (at, _) = batches_in(block)
    block[at + 8 : at + 12] = length.to_bytes(4, "big", signed=True)
    assert place_batches(block, 0) == -1


@pytest.mark.parametrize("size", [1, 20, 60, 61])
def test_a_block_that_ends_within_a_batch_is_not_placed(size):
    assert place_batches(foreign_block([1])[:size], 0) == -1
