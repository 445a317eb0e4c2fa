"""Messages to records and back: the same bytes, the same messages, the same refusals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import InvalidBatch
from mainstem.wire.record_batch import HEADER_BYTES, Record, encode_batch
from mainstem.wire.record_batch.encoding import encode_headers, seal_batch
from tests.support.both_ways import both_ways, outcome

MESSAGES = both_ways("mainstem.wire.messages.message")
UNDERWAY = both_ways("mainstem.wire.messages.batch_underway")
STORED = both_ways("mainstem.wire.messages.stored_messages")
BLOCKS = both_ways("mainstem.wire.messages.header_block")
_, PYTHON_ERRORS = both_ways("mainstem.model.errors")

FIELDS = ("lane", "offset", "timestamp_ms", "key", "headers", "value", "expires_ms", "deliveries", "failures", "holder")
KEYS = st.none() | st.binary(max_size=200)
NAMES = st.sampled_from(("a", "mainstem-ttl", "x" * 130, "é"))
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=200)), max_size=4)
VALUES = st.lists(st.binary(max_size=300) | st.just(b"x" * 9_000), max_size=100) | st.integers(0, 300).map(
    lambda count: [b"y" * 60] * count
)


def facts(messages) -> list[tuple[object, ...]]:
    return [tuple(getattr(message, field) for field in FIELDS) for message in messages]


@given(KEYS, HEADERS, VALUES, st.integers(0, 1 << 45))
def test_new_messages_and_copies_are_the_same(key, headers, values, time):
    found = []
    for way in MESSAGES:
        made = way.new_messages("lane", time, key, encode_headers(headers), values, time // 2)
        for number, message in enumerate(made):
            message.deliveries = number
        found.append((facts(made), facts(way.copy_messages("other", made)), facts(each.again() for each in made)))
    assert found[0] == found[1]


@given(KEYS, HEADERS, VALUES, st.integers(0, 200), st.integers(100, 40_000))
def test_messages_become_the_same_batch(key, headers, values, before, bytes_max):
    found = []
    for way in UNDERWAY:
        batch = way.BatchUnderway("lane", 5)
        for _ in range(before):
            batch.add(b"\1\1\0")
        end = batch.add_all(key, encode_headers(headers), values, 0, bytes_max)
        batch.add(way.encode_content(key, encode_headers(headers), b"last"))
        found.append((end, batch.count, batch.size, batch.seal()))
    assert found[0] == found[1]


TIMES = st.integers(0, 1 << 42) | st.integers(-(1 << 63), (1 << 63) - 1)
RECORDS = st.lists(st.tuples(TIMES, KEYS, st.none() | st.binary(max_size=200), HEADERS), min_size=1, max_size=10)


@given(RECORDS, st.integers(0, 1 << 40), st.none() | st.integers(0, 1 << 45), st.data())
def test_a_batch_is_read_or_refused_the_same(records, base, stamp, data):
    made = [Record(base + number, *fields[:3], tuple(fields[3])) for number, fields in enumerate(records)]
    batch = bytearray(encode_batch(made, base_offset=base, log_append_time_ms=stamp))
    for _ in range(data.draw(st.integers(0, 3))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    seal_batch(batch)
    found = [read(way, bytes(batch)) for way in STORED]
    assert found[0] == found[1]


@given(st.binary(max_size=80), st.integers(1, 4))
def test_any_bytes_are_read_or_refused_the_same(body, count):
    batch = bytearray(encode_batch([Record(0, 5, None, b"", ())])[:HEADER_BYTES]) + body
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[23:27] = (count - 1).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big")
    seal_batch(batch)
    found = [read(way, bytes(batch)) for way in STORED]
    assert found[0] == found[1]


def read(way, batch: bytes) -> object:
    """The messages, or that they were refused: what is wrong first is looked for in another order."""
    try:
        return facts(way.decode_messages(batch, "lane"))
    except (InvalidBatch, PYTHON_ERRORS.InvalidBatch) as refusal:
        return type(refusal).__name__


@given(HEADERS, st.data())
def test_a_header_is_found_the_same(headers, data):
    block = bytearray(encode_headers(headers))
    if data.draw(st.booleans()):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    for name in (b"a", b"mainstem-ttl", b"x" * 130, b"missing", b""):
        compiled, python = (outcome(way.find_header, bytes(block), name) for way in BLOCKS)
        assert compiled == python
