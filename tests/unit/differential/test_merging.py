"""What a merge does for every batch: the same blocks, the same shared parts, the same bad ones found."""

from __future__ import annotations

from array import array
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mainstem.wire.record_batch import encode_batch
from tests.support.both_ways import both_ways, outcome

PACKERS = both_ways("mainstem.storage.local.merge.batch_packer")
ENTRIES = both_ways("mainstem.storage.local.runs.shared_entries")
BLOCKS = both_ways("mainstem.storage.local.runs.run_blocks")
DISKS = both_ways("mainstem.storage.runtime.disk")

CONTENT = Random(3).randbytes(1 << 14)
BATCHES = st.lists(
    st.tuples(st.integers(-1, 3), st.integers(1, 5), st.integers(8, 120), st.integers(-1, 1 << 45)),
    min_size=1,
    max_size=60,
)
"""Of each the gap before it, its records, its size and its time; a gap of -1 is an overlap."""


def columns_of(batches) -> SimpleNamespace:
    """A file of batches, as far as a merge looks at one."""
    bases, positions = array("q"), array("Q")
    base, position = 5, 0
    for gap, count, size, _ in batches:
        base = max(base + gap, 0)
        bases.append(base)
        positions.append(position)
        base += count
        position += size + 3
    return SimpleNamespace(
        bases=bases,
        positions=positions,
        counts=array("I", [count for _, count, _, _ in batches]),
        sizes=array("I", [size for _, _, size, _ in batches]),
        times=array("q", [time for *_, time in batches]),
        content=memoryview(CONTENT)[:position],
    )


class Series:
    """Takes blocks as a series of runs does."""

    def __init__(self) -> None:
        self.taken: list[tuple[object, ...]] = []

    def add_block(self, first, next_, time, data, crc, batches) -> None:
        self.taken.append((first, next_, time, bytes(data), crc, batches))


# Packing


@given(BATCHES, st.integers(1, 300), st.data())
def test_batches_are_packed_into_the_same_blocks(batches, block_bytes, data):
    file = columns_of(batches)
    indices = array("I", data.draw(st.lists(st.integers(0, len(batches) - 1), unique=True).map(sorted)))

    def pack(packers) -> object:
        series = Series()
        packer = packers.BatchPacker(series, block_bytes)
        packer.begin_log()
        result = outcome(packer.take, file, indices)
        return result, packer.flush(), series.taken

    assert pack(PACKERS[0]) == pack(PACKERS[1])


@given(st.lists(st.integers(0, (1 << 64) - 1) | st.integers(0, 4), max_size=100))
def test_logs_are_sorted_the_same(logs):
    compiled, python = (way.indices_by_log(array("Q", logs)) for way in PACKERS)
    assert compiled == python


@given(BATCHES, st.integers(0, 300))
def test_the_same_batches_are_alive(batches, start):
    file = columns_of(batches)
    indices = array("I", range(len(batches)))
    compiled, python = (way.reaching(indices, file.bases, file.counts, start) for way in PACKERS)
    assert compiled == python


# Sharing


COLUMNS = ("firsts", "nexts", "sizes", "units", "foreign")


def columns(entries) -> list[list[int]]:
    return [list(getattr(entries, name)) for name in COLUMNS]


@given(
    BATCHES,
    st.lists(st.tuples(st.integers(0, 59), st.integers(-1, 9)), max_size=40),
    st.integers(0, 400),
    st.integers(1, 4_000),
    st.integers(0, 4_000),
    st.randoms(use_true_random=False),
)
def test_what_a_log_has_is_cut_into_the_same_parts(batches, refs, start, block_bytes, shared_min, chance):
    file = columns_of(batches)
    sources = array("I", [source % len(batches) for source, _ in refs])
    base = 0
    ref_bases = array("q")
    for source, (_, gap) in zip(sources, refs, strict=True):
        base = max(base + gap, 0)
        ref_bases.append(base)
        base += file.counts[source]
    takers = array("I", [chance.choice((1, 1, 2, 3)) for _ in range(len(batches) + 3)])

    def share(way: int) -> object:
        entries = ENTRIES[way].LogEntries()
        own, all_refs = array("I", range(0, len(batches), 2)), array("I", range(len(refs)))
        is_ordered = ENTRIES[way].take_batches(
            entries, file.bases, file.counts, file.sizes, own, all_refs, ref_bases, sources, 3
        )
        counted = array("I", takers)
        ENTRIES[way].add_takers(entries, start, counted)
        parts = ENTRIES[way].cut(entries, start, counted, block_bytes, shared_min)
        series = Series()
        packer = PACKERS[way].BatchPacker(series, block_bytes)
        packer.begin_log()
        result = outcome(packer.take_entries, file, entries, 0, len(entries.units), 3)
        return is_ordered, columns(entries), counted, parts, result, packer.flush(), series.taken

    assert share(0) == share(1)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, 2)), min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from((0, 0, 0, 0, 1))), max_size=12),
)
def test_references_name_the_same_batches(batches, refs):
    logs, bases, numbers = (list(column) for column in zip(*batches, strict=True))
    zeros = [0] * len(batches)
    data = [
        array(kind, column)
        for kind, column in zip("QqqIIIB", (logs, bases, zeros, numbers, numbers, numbers, zeros), strict=True)
    ]
    picked = [(*batches[at % len(batches)], wrong) for at, wrong in refs]
    none = [0] * len(refs)
    wanted = [number + wrong for *_, number, wrong in picked]
    named = ([log for log, *_ in picked], [base for _, base, *_ in picked])
    given_refs = [
        array(kind, column)
        for kind, column in zip("QqqQqIII", (none, none, none, *named, wanted, wanted, wanted), strict=True)
    ]
    found = []
    for way in ENTRIES:
        sources = array("I")
        found.append((way.find_sources(data, given_refs, 7, sources), list(sources)))
    assert found[0] == found[1]


# Reading


SIZES = st.lists(st.sampled_from((1, 8, 60)) | st.integers(0, 700), min_size=1, max_size=20)


@given(SIZES, st.data())
def test_the_same_block_is_bad(sizes, data):
    content = CONTENT[: sum(sizes)]
    ends = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    crcs = array("I", [crc32c(content[a:b]) for a, b in zip(ends, ends[1:], strict=False)])
    first = data.draw(st.integers(0, len(sizes)))
    stop = data.draw(st.integers(first, len(sizes)))
    if data.draw(st.booleans()):
        crcs[data.draw(st.integers(0, len(sizes) - 1))] ^= 1 << data.draw(st.integers(0, 31))
    view = memoryview(content)[ends[first] : ends[stop]]
    compiled, python = (way.bad_block(view, array("I", sizes), crcs, first, stop) for way in BLOCKS)
    assert compiled == python


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("blocks") / "run"


@given(
    st.lists(st.tuples(st.integers(1, 700), st.sampled_from((0, 0, 9))), min_size=1, max_size=20),
    st.integers(0, 900),
    st.data(),
)
def test_blocks_are_read_the_same(path, blocks, missing, data):
    positions, sizes, crcs, stored = array("Q"), array("I"), array("I"), bytearray(16)
    for size, gap in blocks:
        stored += bytes(gap)
        positions.append(len(stored))
        stored += CONTENT[len(stored) : len(stored) + size]
        sizes.append(size)
        crcs.append(crc32c(stored[-size:]))
    if data.draw(st.booleans()):
        stored[data.draw(st.integers(0, len(stored) - 1))] ^= 1
    path.write_bytes(stored[: len(stored) - missing] if data.draw(st.booleans()) else stored)
    first = data.draw(st.integers(0, len(blocks) - 1))
    found = []
    for way in range(2):
        file = DISKS[way].LocalDisk().open(str(path), writable=False)
        view = memoryview(bytearray(sum(sizes[first:])))
        bad = BLOCKS[way].read_blocks(file, view, positions, sizes, crcs, first, len(blocks))
        file.close()
        found.append((bad, bytes(view) if bad < 0 else None))
    assert found[0] == found[1]


@given(
    st.lists(st.tuples(st.integers(0, 9_000), st.sampled_from((0, 0, 9))), min_size=1, max_size=20),
    st.integers(0, 20_000),
    st.data(),
)
def test_neighbours_end_at_the_same_block(blocks, bytes_max, data):
    positions, sizes, at = array("Q"), array("I"), 0
    for size, gap in blocks:
        positions.append(at + gap)
        sizes.append(size)
        at += gap + size
    first = data.draw(st.integers(0, len(blocks) - 1))
    compiled, python = (way.neighbours_end(positions, sizes, first, len(blocks), bytes_max) for way in BLOCKS)
    assert compiled == python


@given(
    st.lists(st.integers(1, 4), max_size=6),
    st.integers(0, 1 << 62),
    st.sampled_from((None, None, 8, 11, 23, 26)),
    st.integers(0, 7),
    st.sampled_from((0, 0, 1, 60)),
)
def test_batches_are_placed_the_same(counts, first, at, bit, missing):
    block = bytearray()
    for count in counts:
        block += encode_batch([(number, 5, None, b"v", ()) for number in range(count)])
    if at is not None and block:
        block[at] ^= 1 << bit
    found = []
    for way in BLOCKS:
        given_block = block[: len(block) - missing] if missing < len(block) else bytearray(block)
        found.append((way.place_batches(given_block, first), given_block))
    assert found[0] == found[1]
