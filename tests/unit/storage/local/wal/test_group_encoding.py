"""A group as it is written is what recovery reads, byte for byte as docs/storage-format.md draws it."""

from __future__ import annotations

import struct

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mainstem.storage.contract import LogConfig
from mainstem.storage.local.frame import COMMIT, DATA, FRAME_BYTES, FRAME_MAGIC, SECTOR_BYTES, encode_frame
from mainstem.storage.local.limits import EngineLimits
from mainstem.storage.local.wal.group_encoding import encode_group
from mainstem.storage.local.wal.stored_group import decode_group
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.entries import StateItem
from mainstem.storage.sequencer.log_state import LogState
from mainstem.wire.record_batch import CRC_FROM, encode_batch, place_batch, read_header

JOINED_BYTES_MAX = EngineLimits().joined_bytes_max
NUMBERS = st.integers(0, 2**63 - 1)
SIZES = st.lists(st.integers(0, 300), max_size=5)


def group_of(sizes: list[int], refs: int = 0, state: list[StateItem] | None = None) -> CommitGroup:
    group = CommitGroup()
    log_state = LogState(7, LogConfig(), 0, 0)
    for index, size in enumerate(sizes):
        batch = encode_batch([(0, 1_000 + index, None, b"v" * size, ())])
        place_batch(batch, 0, index, 0)
        header = read_header(batch)
        group.entries.append((index, 1_000 + index, len(batch), 1, header.crc, 0, log_state, batch))
    for index in range(refs if sizes else 0):
        base, time, size, count, crc, _, _, _ = group.entries[index % len(sizes)]
        group.refs.append((8, index, time, 7, base, size, count, crc, log_state, index % len(sizes)))
    group.state = state or []
    return group


@given(SIZES, st.integers(0, 3), st.booleans(), NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_what_is_encoded_is_decoded(
    sizes: list[int], refs: int, has_state: bool, generation: int, sequence: int, proven: int, time_ms: int
) -> None:
    state: list[StateItem] = [("scope", b"key", b"value"), ("scope", b"gone", None)] if has_state else []
    group = group_of(sizes, refs, state)
    parts, size, data_offset = encode_group(group, generation, sequence, proven, time_ms, JOINED_BYTES_MAX)
    content = memoryview(b"".join(parts))
    assert len(content) == size
    assert size % SECTOR_BYTES == 0
    found = decode_group(content, 0, generation, sequence)
    assert (found.end, found.proven, found.time_ms) == (size, proven, time_ms)
    assert [tuple(item) for item in found.state] == [tuple(item) for item in state]
    if sizes:
        assert found.data is not None
        assert found.data_position == data_offset
        assert list(zip(*found.data, strict=True)) == [(7, *entry[:6]) for entry in group.entries]
        body = b"".join(entry[7] for entry in group.entries)
        assert content[data_offset : data_offset + len(body)] == body
        assert b"".join(group.body) == body
    if group.refs:
        assert found.refs is not None
        assert list(zip(*found.refs, strict=True)) == [entry[:8] for entry in group.refs]


@given(st.binary(max_size=100), st.integers(0, 2**32 - 1), NUMBERS, NUMBERS, NUMBERS)
def test_a_frame_is_as_drawn(head: bytes, body_bytes: int, generation: int, sequence: int, proven: int) -> None:
    frame, crc = encode_frame(DATA, head, body_bytes, generation, sequence, proven)
    fields = struct.pack("<HBBIIIQQQ", FRAME_MAGIC, DATA, 0, 0, len(head), body_bytes, generation, sequence, proven)
    assert crc == crc32c(fields + head)
    assert frame == fields[:4] + crc.to_bytes(4, "little") + fields[8:] + head


def test_small_batches_are_joined_and_large_ones_are_not_copied() -> None:
    small, large = group_of([10, 20]), group_of([10, 3 * JOINED_BYTES_MAX])
    encode_group(small, 1, 1, 0, 0, JOINED_BYTES_MAX)
    encode_group(large, 1, 1, 0, 0, JOINED_BYTES_MAX)
    assert [type(part) for part in small.body] == [bytes]
    assert [id(part) for part in large.body] == [id(entry[7]) for entry in large.entries]


def test_an_empty_group_is_a_commit_frame_alone() -> None:
    parts, size, data_offset = encode_group(CommitGroup(), 3, 9, 8, 1, JOINED_BYTES_MAX)
    assert (size, data_offset) == (SECTOR_BYTES, 0)
    assert parts[0][2] == COMMIT
    assert len(parts[0]) == FRAME_BYTES + 16


def test_the_checksum_of_a_batch_is_its_own() -> None:
    """What the head says of a batch is what lies in it: the tests above would not notice a pair of lies."""
    group = group_of([5])
    assert crc32c(group.entries[0][7][CRC_FROM:]) == group.entries[0][4]
