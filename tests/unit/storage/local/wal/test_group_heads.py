"""Files of large batches are adopted by their heads: nothing else of them is read, and what that says is as true as before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mainstem.model.errors import CorruptData
from mainstem.storage.local.limits import MergeLimits
from mainstem.storage.local.merge.job import WalInput
from mainstem.storage.local.merge.sealed_file import Producers, SealedFile, read_sealed_file, read_sealed_heads
from mainstem.storage.local.runs.run_blocks import bad_block
from mainstem.storage.local.wal.stored_group import decode_group
from mainstem.storage.runtime.disk import LocalFile
from mainstem.storage.sequencer.producers import encode_producer
from mainstem.wire.checksum import crc32c
from tests.support.storage.wal_builder import Workspace, plain_batch

LIMITS = MergeLimits()


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of all reads."""
    sizes: list[int] = []
    read, read_into = LocalFile.read, LocalFile.read_into

    def counted_read(file: LocalFile, size: int, position: int) -> bytes:
        sizes.append(size)
        return read(file, size, position)

    def counted_read_into(file: LocalFile, buffer: memoryview, position: int) -> int:
        sizes.append(len(buffer))
        return read_into(file, buffer, position)

    monkeypatch.setattr(LocalFile, "read", counted_read)
    monkeypatch.setattr(LocalFile, "read_into", counted_read_into)
    return sizes


def varied(space: Workspace) -> WalInput:
    """Groups of all kinds of frames, with heads that are larger than what is looked at first."""
    for group in range(4):
        for number in range(3):
            fields = {"producer_id": 7 + number, "producer_epoch": 1, "base_sequence": group}
            space.wal.append(number, plain_batch(LIMITS.large_batch_bytes + number, 2, 1000 + group, **fields))
        if group == 1:
            for _ in range(200):
                space.wal.append(5, plain_batch(20))
            space.wal.append(6, plain_batch(200 * LIMITS.heads_batch_bytes_min))
        if group == 2:
            space.wal.mark(0, 7, 1, commit=True)
            for number in range(100):
                space.wal.mutate("scope", b"key %d" % number, b"x" * 50)
        if group == 3:
            space.wal.refer(9, 1)
        space.wal.end_group(5000 + group)
    space.wal.mutate("scope", b"alone", None)
    space.wal.end_group()
    return space.wal.end_file(slack=10_000)


def by_heads(space: Workspace, entry: WalInput) -> SealedFile:
    sealed = read_sealed_heads(space.disk, entry, LIMITS)
    assert sealed is not None
    return sealed


def facts(sealed: SealedFile) -> list[object]:
    sealed.sort([2], {1: 2})
    producers: Producers = {}
    sealed.fold_producers(producers)
    states = {key: encode_producer(producer) for key, producer in producers.items()}
    columns = (sealed.bases, sealed.times, sealed.positions, sealed.sizes, sealed.counts)
    return [*map(list, columns), sealed.by_log, dict(sealed.references), sealed.state, states]


def test_heads_say_what_the_whole_says(space: Workspace) -> None:
    entry = varied(space)
    assert facts(by_heads(space, entry)) == facts(read_sealed_file(space.disk, entry))


def test_the_sum_of_batches_follows_from_their_heads(space: Workspace) -> None:
    entry = varied(space)
    heads, whole = by_heads(space, entry), read_sealed_file(space.disk, entry)
    last = len(whole.positions) - 1
    for first, stop in ((0, 1), (0, 3), (3, 6), (6, 60), (last, last + 1)):
        end = whole.positions[stop - 1] + whole.sizes[stop - 1]
        assert heads.checksum(range(first, stop)) == crc32c(whole.content[whole.positions[first] : end])


def large_file(space: Workspace, log: int = 1) -> WalInput:
    for _ in range(4):
        for _ in range(4):
            space.wal.append(log, plain_batch(4 * LIMITS.large_batch_bytes))
        space.wal.end_group()
    return space.wal.end_file()


def test_what_batches_hold_is_not_read(space: Workspace, read_bytes: list[int]) -> None:
    entry = large_file(space)
    outcome = space.done(space.wal_job())
    assert [run.adopted for run in outcome.runs] == [entry.generation]
    assert sum(read_bytes) < entry.end / 50
    assert space.content(outcome.runs) == space.wal.expected


def test_nor_if_all_of_it_is_dead(space: Workspace, read_bytes: list[int]) -> None:
    entry = large_file(space)
    assert space.done(space.wal_job(deleted=[1])).runs == []
    assert sum(read_bytes) < entry.end / 50


def test_it_is_read_where_keys_are_indexed(space: Workspace, read_bytes: list[int]) -> None:
    entry = large_file(space)
    (run,) = space.done(space.wal_job(key_indexed=[1])).runs
    assert run.adopted == entry.generation
    assert sum(read_bytes) > entry.end


def test_small_batches_are_not_looked_for_one_by_one(space: Workspace, read_bytes: list[int]) -> None:
    for _ in range(4):
        for _ in range(1_500):
            space.wal.append(1, plain_batch(100))
        space.wal.end_group()
    entry = space.wal.end_file()
    assert entry.end > 4 * LIMITS.large_batch_bytes, "in large groups"
    outcome = space.done(space.wal_job())
    assert [run.adopted for run in outcome.runs] == [None]
    assert len(read_bytes) < 10
    assert sum(read_bytes) < 1.5 * entry.end


def spoil(path: str, position: int) -> None:
    content = bytearray(Path(path).read_bytes())
    content[position] ^= 0x10
    Path(path).write_bytes(content)


def group_edges(entry: WalInput) -> list[tuple[int, int, list[int]]]:
    """Of each group: where it begins, where its first batch does, and the sizes of its batches."""
    content = memoryview(Path(entry.path).read_bytes())
    edges = []
    position = 512
    for sequence in range(entry.first, entry.last + 1):
        group = decode_group(content, position, entry.generation, sequence)
        assert group.data is not None
        edges.append((position, group.data_position, list(group.data.sizes)))
        position = group.end
    return edges


def test_damage_of_what_a_batch_holds_is_found_by_whoever_reads_it(space: Workspace) -> None:
    entry = large_file(space)
    _, data, sizes = group_edges(entry)[2]
    spoil(entry.path, data + sizes[0] + 1000)
    (run,) = space.done(space.wal_job()).runs
    index = space.load(run.path)
    content = memoryview(Path(run.path).read_bytes())
    bad = []
    for block in range(len(index.block_sizes)):
        position, size = index.block_positions[block], index.block_sizes[block]
        if bad_block(content[position : position + size], index.block_sizes, index.block_crcs, block, block + 1) >= 0:
            bad.append(position <= data + sizes[0] + 1000 < position + size)
    assert bad == [True]


@pytest.mark.parametrize(
    "place",
    [
        lambda group, data: group,
        lambda group, data: group + 2,
        lambda group, data: group + 9,
        lambda group, data: data - 1,
        lambda group, data: data,
        lambda group, data: data + 10,
        lambda group, data: data + 20,
    ],
)
def test_damage_of_a_head_is_found_by_the_merge(space: Workspace, place: Callable[[int, int], int]) -> None:
    entry = large_file(space)
    group, data, _ = group_edges(entry)[1]
    spoil(entry.path, place(group, data))
    with pytest.raises(CorruptData):
        read_sealed_heads(space.disk, entry, LIMITS)
    damage = space.do(space.wal_job()).damage
    assert damage is not None
    assert damage.file == entry.path
    assert group <= damage.position <= data
