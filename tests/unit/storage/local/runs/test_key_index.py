from __future__ import annotations

from collections import defaultdict
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import CorruptData
from mainstem.storage.local.runs import key_index
from mainstem.storage.local.runs.key_index import (
    PAGE_BYTES,
    KeyTableBuilder,
    encode_key_table,
    key_hash,
    lookup_key_table,
    table_bytes,
)
from mainstem.testing.disk import SimulatedDisk, SimulatedFile


def stored(data: bytes, position: int = 0) -> SimulatedFile:
    file = SimulatedDisk().open("/table", create=True)
    file.write([data], position)
    return file


def test_hash_is_as_documented() -> None:
    assert key_hash(b"a key") == int.from_bytes(blake2b(b"a key", digest_size=8).digest(), "little")


@given(st.lists(st.integers(0, 400), max_size=1200), st.integers(0, 5000))
def test_finds_every_offset_of_a_key(keys: list[int], position: int) -> None:
    table = KeyTableBuilder()
    expected: defaultdict[int, list[int]] = defaultdict(list)
    for offset, key in enumerate(keys):
        table.add(b"%d" % key, offset * 3)
        expected[key].append(offset * 3)
    data, _ = encode_key_table(table.hashes, table.offsets, 9, position)
    assert len(data) == table_bytes(len(table))
    file = stored(data, position)
    for key in [*list(expected)[:40], 401]:
        assert lookup_key_table(file, 9, position, len(table), key_hash(b"%d" % key)) == expected[key]


def test_one_key_over_many_pages() -> None:
    table = KeyTableBuilder()
    for offset in range(1000):
        table.add(b"same", offset)
    data, _ = encode_key_table(table.hashes, table.offsets, 1, 0)
    assert lookup_key_table(stored(data), 1, 0, 1000, key_hash(b"same")) == list(range(1000))


def test_every_flipped_byte_is_found() -> None:
    table = KeyTableBuilder()
    for offset in range(100):
        table.add(b"%d" % offset, offset)
    data, _ = encode_key_table(table.hashes, table.offsets, 1, 0)
    for position in range(0, PAGE_BYTES, 7):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(CorruptData):
            lookup_key_table(stored(bytes(damaged)), 1, 0, 100, key_hash(b"5"))
    with pytest.raises(CorruptData):
        lookup_key_table(stored(data[:-1]), 1, 0, 100, key_hash(b"5"))


def test_a_page_of_another_place_does_not_pass() -> None:
    table = KeyTableBuilder()
    table.add(b"a", 1)
    data, _ = encode_key_table(table.hashes, table.offsets, 1, 0)
    with pytest.raises(CorruptData):
        lookup_key_table(stored(data), 2, 0, 1, key_hash(b"a"))
    with pytest.raises(CorruptData):
        lookup_key_table(stored(data, 8), 1, 8, 1, key_hash(b"a"))


def test_page_is_full() -> None:
    assert 8 + 16 * key_index.PAGE_ENTRIES <= PAGE_BYTES < 8 + 16 * (key_index.PAGE_ENTRIES + 1)
