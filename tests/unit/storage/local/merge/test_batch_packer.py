"""Batches into blocks: all of them, in order, each block as full as it may be."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.storage.local.merge.batch_packer import BatchPacker, OffsetsOverlap, indices_by_log, reaching
from mainstem.wire.checksum import crc32c

Batch = tuple[int, int, int, bytes]
"""base, count, time, data"""


class Blocks:
    """Takes them as a series of runs does."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int, int, bytes, int]] = []

    def add_block(self, first: int, next_: int, time: int, data: bytes, crc: int, batches: int) -> None:
        assert crc32c(data) == crc
        self.taken.append((first, next_, time, bytes(data), batches))


def file_of(batches: list[Batch], before: bytes = b"before") -> SimpleNamespace:
    """A sealed file, as far as the packer looks at one."""
    content = bytearray(before)
    positions = array("Q")
    for *_, data in batches:
        positions.append(len(content))
        content += data + b"between"
    return SimpleNamespace(
        bases=array("q", [base for base, *_ in batches]),
        counts=array("I", [count for _, count, *_ in batches]),
        times=array("q", [time for _, _, time, _ in batches]),
        positions=positions,
        sizes=array("I", [len(data) for *_, data in batches]),
        content=memoryview(content),
    )


def expected_blocks(batches: list[Batch], block_bytes: int) -> list[tuple[int, int, int, bytes, int]]:
    blocks: list[list[Batch]] = []
    for batch in batches:
        if not blocks or sum(len(data) for *_, data in blocks[-1]) + len(batch[3]) > block_bytes:
            blocks.append([])
        blocks[-1].append(batch)
    return [
        (
            block[0][0],
            block[-1][0] + block[-1][1],
            max(time for _, _, time, _ in block),
            b"".join(data for *_, data in block),
            len(block),
        )
        for block in blocks
    ]


def batches_of(rows: list[tuple[int, int, int, int]]) -> list[Batch]:
    """From gaps, counts, times and sizes."""
    batches: list[Batch] = []
    base = 0
    for number, (gap, count, time, size) in enumerate(rows):
        base += gap
        batches.append((base, count, time, bytes([number % 251 + 1]) * size))
        base += count
    return batches


ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(-1, 1 << 45), st.integers(1, 90)),
    min_size=1,
    max_size=60,
)


@given(ROWS, st.integers(0, 60), st.integers(1, 200))
def test_blocks_hold_all_batches_of_two_files_in_order(rows, cut, block_bytes):
    batches = batches_of(rows)
    blocks = Blocks()
    packer = BatchPacker(blocks, block_bytes)
    for log in range(2):  # one log leaves nothing to the next
        packer.begin_log()
        for part in (batches[:cut], batches[cut:]):
            # Others stand between those that are taken.
            file = file_of([other for batch in part for other in (batch, (0, 1, 0, b"other"))])
            packer.take(file, array("I", range(0, 2 * len(part), 2)))
        assert packer.flush() == batches[-1][0] + batches[-1][1]
        assert blocks.taken == expected_blocks(batches, block_bytes) * (log + 1)


def test_a_large_batch_is_not_copied():
    blocks = Blocks()
    kept = []
    blocks.add_block = lambda *block: kept.append(block)
    file = file_of([(0, 1, 5, b"small"), (1, 1, 6, b"l" * 100), (2, 1, 7, b"small")])
    packer = BatchPacker(blocks, 50)
    packer.begin_log()
    packer.take(file, array("I", range(3)))
    packer.flush()
    assert [(first, next_, batches) for first, next_, _, _, _, batches in kept] == [(0, 1, 1), (1, 2, 1), (2, 3, 1)]
    assert kept[1][3].obj is file.content.obj


@pytest.mark.parametrize("second", [0, 3, 4])
def test_offsets_that_overlap_are_refused(second):
    packer = BatchPacker(Blocks(), 50)
    packer.begin_log()
    packer.take(file_of([(0, 5, 0, b"first")]), array("I", [0]))
    with pytest.raises(OffsetsOverlap):
        packer.take(file_of([(second, 1, 0, b"second")]), array("I", [0]))


def test_the_next_log_begins_at_any_offset():
    blocks = Blocks()
    packer = BatchPacker(blocks, 50)
    for base in (7, 3):
        packer.begin_log()
        packer.take(file_of([(base, 2, 0, b"batch")]), array("I", [0]))
        assert packer.flush() == base + 2
    assert [block[:2] for block in blocks.taken] == [(7, 9), (3, 5)]


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=200))
def test_each_log_knows_where_it_stands(logs):
    found = indices_by_log(array("Q", logs))
    assert {log: list(indices) for log, indices in found.items()} == {
        log: [index for index, other in enumerate(logs) if other == log] for log in logs
    }


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=40), st.integers(0, 60))
def test_what_reaches_an_offset_is_alive(batches, start):
    bases, counts = array("q", [base for base, _ in batches]), array("I", [count for _, count in batches])
    alive = reaching(array("I", range(len(batches))), bases, counts, start)
    assert list(alive) == [index for index, (base, count) in enumerate(batches) if base + count > start]
