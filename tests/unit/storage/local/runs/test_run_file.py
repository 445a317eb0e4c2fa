from __future__ import annotations

import struct
import time
from array import array

import pytest
from crc32c import crc32c

from mainstem.model.errors import CorruptData, UnsupportedFormat
from mainstem.storage.local.frame import SECTOR_BYTES
from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.local.runs.key_index import KeyTableBuilder, key_hash
from mainstem.storage.local.runs.run_file import (
    TRAILER_BYTES,
    RunFacts,
    RunIndex,
    encode_footer,
    encode_run_header,
    encode_trailer,
)
from mainstem.storage.local.runs.run_writer import RunWriter
from mainstem.testing.disk import SimulatedDisk

FACTS = RunFacts(42, 3, 2, 1234)


def written() -> tuple[SimulatedDisk, str]:
    """Three logs: two blocks, none, one; the last has a key table."""
    disk = SimulatedDisk()
    disk.make_directory("/runs")
    writer = RunWriter(disk, "/runs", FACTS, MergeLimits())
    writer.begin_log(5, 10)
    writer.add_block(10, 20, 111, b"a" * 99, crc32c(b"a" * 99), 3)
    writer.add_block(25, 30, 99, b"b" * 10, crc32c(b"b" * 10), 1)
    writer.end_log(35)
    writer.begin_log(6, 100)
    writer.end_log(200)
    writer.begin_log(1 << 63, 0)
    writer.add_block(0, 1, -1, b"c", crc32c(b"c"), 1)
    table = KeyTableBuilder()
    table.add(b"key", 0)
    writer.add_key_table(table)
    writer.end_log(0)
    size = writer.finish()
    assert disk.paths() == ["/runs/000000000000002a.run"]
    assert len(disk.content(writer.path)) == size
    return disk, writer.path


def test_written_and_loaded() -> None:
    disk, path = written()
    file = disk.open(path, writable=False)
    index = RunIndex.load(file)
    assert (index.id, index.retention_class, index.tier, index.created_ms) == FACTS
    assert list(index.logs) == [5, 6, 1 << 63]
    assert list(index.firsts) == [10, 100, 0]
    assert list(index.nexts) == [35, 200, 1]
    assert list(index.bytes) == [109, 0, 1]
    assert list(index.times) == [111, -1, -1]
    assert list(index.block_batches) == [3, 1, 1]
    assert [file.read(size, at) for at, size in zip(index.block_positions, index.block_sizes, strict=True)] == [
        b"a" * 99,
        b"b" * 10,
        b"c",
    ]
    assert [index.find(log) for log in (0, 5, 6, 7, 1 << 63)] == [-1, 0, 1, -1, 2]
    assert [index.blocks(slot) for slot in range(3)] == [range(0, 2), range(2, 2), range(2, 3)]
    assert [index.block_for(0, offset) for offset in (0, 10, 19, 20, 24, 29, 30, 99)] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert index.block_for(1, 150) == 2
    assert index.key_lookup(file, 1 << 63, key_hash(b"key")) == [0]
    assert index.key_lookup(file, 5, key_hash(b"key")) == []


def test_any_flipped_bit_outside_the_blocks_is_found() -> None:
    disk, path = written()
    content = disk.content(path)
    index = RunIndex.load(disk.open(path))
    (footer_position,) = struct.unpack_from("<Q", content, len(content) - TRAILER_BYTES)
    for position in (*range(SECTOR_BYTES), *range(footer_position, len(content))):
        for bit in (0, 7):
            disk.flip(path, position, bit)
            with pytest.raises(CorruptData) as caught:
                RunIndex.load(disk.open(path))
            assert caught.value.file == path
            disk.flip(path, position, bit)
    key_position = index.key_positions[0]
    for position in range(key_position, key_position + 4096, 5):
        disk.flip(path, position)
        with pytest.raises(CorruptData):
            index.key_lookup(disk.open(path), 1 << 63, key_hash(b"key"))
        disk.flip(path, position)


def test_cut_anywhere_is_no_run() -> None:
    disk, path = written()
    content = disk.content(path)
    for size in (*range(0, len(content) - 200, 97), *range(len(content) - 200, len(content))):
        disk.replace(path, content[:size])
        with pytest.raises(CorruptData):
            RunIndex.load(disk.open(path))
    disk.replace(path, content + b"\0")
    with pytest.raises(CorruptData):
        RunIndex.load(disk.open(path))


def test_newer_version_is_refused_by_name() -> None:
    disk, path = written()
    content = bytearray(disk.content(path))
    at = len(content) - TRAILER_BYTES
    struct.pack_into("<H", content, at + 44, 3)
    struct.pack_into("<I", content, at + 52, crc32c(content[at : at + 52]))
    disk.replace(path, bytes(content))
    with pytest.raises(UnsupportedFormat, match="version 3"):
        RunIndex.load(disk.open(path))


def test_footer_whose_columns_do_not_fit_is_corrupt() -> None:
    disk = SimulatedDisk()
    for footer in (struct.pack("<IIII", 1000, 0, 0, 0), struct.pack("<IIII", 0, 0, 0, 0) + b"\0" * 8):
        content = encode_run_header(FACTS) + footer + encode_trailer(FACTS, footer, SECTOR_BYTES)
        path = f"/{len(footer)}"
        disk.open(path, create=True).write([content], 0)
        with pytest.raises(CorruptData):
            RunIndex.load(disk.open(path))


def test_leftover_of_an_interrupted_job_is_replaced() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/runs")
    disk.open("/runs/000000000000002a.run.tmp", create=True).write([b"half a run"], 0)
    writer = RunWriter(disk, "/runs", FACTS, MergeLimits())
    writer.abandon()
    assert disk.paths() == []


@pytest.mark.slow
def test_a_million_blocks_load_at_once() -> None:
    count = 1_000_000
    ascending = array("q", range(count))
    small = array("I", bytes(4 * count))
    blocks = [ascending, ascending, ascending, array("Q", ascending), small, small, small]
    logs = [array("Q", ascending), ascending, ascending, array("Q", ascending), ascending, array("I", ascending)]
    footer = encode_footer(logs, blocks, [array("Q"), array("Q"), array("I"), array("I")])
    disk = SimulatedDisk()
    file = disk.open("/run", create=True)
    file.write([encode_run_header(FACTS), footer, encode_trailer(FACTS, footer, SECTOR_BYTES)], 0)
    began = time.process_time()
    index = RunIndex.load(file)
    assert time.process_time() - began < 0.5
    assert index.find(999_999) == 999_999
    assert index.blocks(77) == range(77, 78)
