"""Frames of the write-ahead log: written as the same bytes, and read, or refused, with the same words."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from mainstem.wire.record_batch import encode_batch, place_batch
from tests.support.both_ways import both_ways, outcome

FRAMES = both_ways("mainstem.storage.local.frame")
GROUPS = both_ways("mainstem.storage.local.wal.stored_group")
BATCHES = both_ways("mainstem.storage.local.wal.stored_batches")
STATES = both_ways("mainstem.storage.sequencer.log_state")
CONTRACTS = both_ways("mainstem.storage.contract")

U32, U64, I64 = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
ENTRIES = st.lists(
    st.tuples(I64, I64, st.integers(0, 1 << 20), U32, U32, st.integers(0, 255), st.integers(0, (1 << 48) - 1)),
    min_size=1,
    max_size=20,
)


@given(ENTRIES)
def test_the_head_of_batches_is_the_same(entries):
    found = []
    for way in range(2):
        config = CONTRACTS[way].LogConfig()
        states = [STATES[way].LogState(log, config, 2, 1) for *_, log in entries]
        given_entries = [(*entry[:6], state, b"") for entry, state in zip(entries, states, strict=True)]
        found.append(FRAMES[way].encode_data_entries(given_entries))
    assert found[0] == found[1]


@given(st.integers(1, 4), st.binary(max_size=5_000), U32, U64, U64, U64)
def test_a_frame_is_the_same(kind, head, body_bytes, generation, sequence, proven):
    compiled, python = (way.encode_frame(kind, head, body_bytes, generation, sequence, proven) for way in FRAMES)
    assert compiled == python


@given(st.lists(st.integers(0, 6_000), min_size=1, max_size=4), st.booleans(), st.data())
def test_a_group_is_read_or_refused_the_same(sizes, by_heads, data):
    content = bytearray(group_of(sizes))
    for _ in range(data.draw(st.integers(0, 2))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    view = memoryview(bytes(content))[: data.draw(st.integers(len(content) - 40, len(content)))]

    def read(way: int) -> object:
        try:
            group = GROUPS[way].decode_group(view, 0, 3, 9, by_heads=by_heads)
        except GROUPS[way].BadGroup as bad:
            return bad.position, bad.what, bad.logs
        return tuple(group[:5]), [list(column) for column in group.data], group.data_position, group.state

    assert read(0) == read(1)


@given(
    st.lists(st.integers(0, 6_000), min_size=1, max_size=4),
    st.sampled_from((None, -1, 0, 8, 11, 12, 16, 17, 20, 61)),
    st.data(),
)
def test_batches_of_a_frame_are_checked_the_same(sizes, at, data):
    """With a head that does not say what the batches are: the checksum of a frame would not let such a one through."""
    batches = batches_of(sizes)
    head = [array("I", map(len, batches)), array("q", range(0, 10 * len(batches), 10))]
    crcs = array("I", [int.from_bytes(batch[17:21], "big") for batch in batches])
    column = data.draw(st.sampled_from((*head, crcs)))
    if data.draw(st.booleans()):
        column[data.draw(st.integers(0, len(column) - 1))] ^= 1 << data.draw(st.integers(0, 12))
    content = bytearray(b"".join(batches))
    if at is not None:
        content[min(at, len(content) - 1)] ^= 1 << data.draw(st.integers(0, 7))
    view = memoryview(content)[: len(content) - data.draw(st.sampled_from((0, 0, 1, 70)))]
    columns = SimpleNamespace(logs=[5] * len(batches), sizes=head[0], bases=head[1], crcs=crcs)
    frame = SimpleNamespace(position=0, body_position=0, body_bytes=sum(head[0]))
    by_heads = data.draw(st.booleans())
    compiled, python = (outcome(way.check_batches, view, frame, columns, by_heads) for way in GROUPS)
    assert compiled == python
    compiled, python = (outcome(way.bad_batch, view, *head) for way in BATCHES)
    assert compiled == python


@given(st.integers(0, 100), st.integers(0, 7))
def test_a_flipped_bit_of_any_header_field_is_found_the_same(size, bit):
    (batch,) = batches_of([size])
    sizes, bases = array("I", [len(batch)]), array("q", [0])
    crcs = array("I", [int.from_bytes(batch[17:21], "big")])
    head = SimpleNamespace(logs=[5], sizes=sizes, bases=bases, crcs=crcs)
    frame = SimpleNamespace(position=0, body_position=0, body_bytes=len(batch))
    for at in range(len(batch)):
        batch[at] ^= 1 << bit
        view = memoryview(batch)
        compiled, python = (
            (way.bad_batch(view, sizes, bases), outcome(group.check_batches, view, frame, head, False))
            for way, group in zip(BATCHES, GROUPS, strict=True)
        )
        assert compiled == python, at
        view.release()
        batch[at] ^= 1 << bit


def batches_of(sizes: list[int]) -> list[bytearray]:
    batches = [encode_batch([(0, 1_000, None, b"v" * size, ())]) for size in sizes]
    for number, batch in enumerate(batches):
        place_batch(batch, 0, 10 * number, 0)
    return batches


def group_of(sizes: list[int]) -> bytes:
    """A group of batches and state, as the write-ahead log has it."""
    frame = FRAMES[1]
    batches = batches_of(sizes)
    lengths = list(map(len, batches))
    crcs = [int.from_bytes(batch[17:21], "big") for batch in batches]
    bases = range(0, 10 * len(batches), 10)
    ones = [1] * len(batches)
    columns = frame.DataHead([7 + n for n in range(len(batches))], bases, ones, lengths, ones, crcs, ones)
    data, data_crc = frame.encode_frame(frame.DATA, frame.encode_data_head(columns), sum(lengths), 3, 9, 2)
    items = frame.encode_state_head([("scope", b"key", b"value"), ("scope", b"gone", None)])
    state, state_crc = frame.encode_frame(frame.STATE, items, 0, 3, 9, 2)
    return b"".join((data, *batches, state, frame.encode_commit([data_crc, state_crc], 1_000, 3, 9, 2)))
