"""Messages as records and back, and bytes that only claim to be records."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.queues.lane import Lane
from mainstem.coordination.queues.names import queue_name_of, topic_name_of
from mainstem.coordination.subscriptions.subscribed_log import SubscribedLog
from mainstem.model.errors import InvalidBatch
from mainstem.wire.errors import MalformedBytes
from mainstem.wire.messages.batch_underway import BatchUnderway, encode_content
from mainstem.wire.messages.header_block import (
    decode_headers,
    encode_headers,
    ttl_of,
)
from mainstem.wire.messages.message import Message
from mainstem.wire.messages.stored_messages import _decode, decode_messages
from mainstem.wire.record_batch import HEADER_BYTES, Record, check_batch, decode_records, encode_batch
from mainstem.wire.record_batch.encoding import seal_batch
from mainstem.wire.record_batch.record import open_batch

LANE: Lane[Any] = Lane(None, 0, SubscribedLog(1, 0), 0)
HEADERS = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=200)), max_size=5)
CONTENTS = st.tuples(st.none() | st.binary(max_size=20), st.binary(max_size=1500), HEADERS)


@given(st.lists(CONTENTS, min_size=1, max_size=20), st.integers(0, 1 << 41))
def test_what_is_published_is_a_batch_that_everybody_reads(contents: list[Any], time_ms: int) -> None:
    batch = BatchUnderway(LANE, time_ms)
    for key, value, headers in contents:
        batch.add(encode_content(key, encode_headers(headers), value))
    sealed = batch.seal()
    assert check_batch(sealed).record_count == len(contents)
    for number, (record, (key, value, headers)) in enumerate(zip(decode_records(sealed), contents, strict=True)):
        assert record == Record(number, time_ms, key, value, tuple(headers))
    for message, (key, value, headers) in zip(decode_messages(sealed, LANE), contents, strict=True):
        assert (message.key, message.value, message.timestamp_ms) == (key, value, time_ms)
        assert decode_headers(message.headers) == headers


@given(
    st.none() | st.binary(max_size=20),
    HEADERS,
    st.lists(st.binary(max_size=300) | st.just(b"x" * 5_000), max_size=200)
    | st.integers(0, 2_000).map(lambda count: [b"y" * 90] * count),
    st.integers(0, 200),
    st.integers(200, 40_000),
)
def test_messages_of_one_kind_become_the_same_batch_at_once(
    key: bytes | None, headers: Any, values: list[bytes], before: int, bytes_max: int
) -> None:
    block = encode_headers(headers)
    one_by_one, at_once = BatchUnderway(LANE, 5), BatchUnderway(LANE, 5)
    for _ in range(before):
        one_by_one.add(b"\1\1\0")
        at_once.add(b"\1\1\0")
    end = 0
    while end < len(values) and one_by_one.size < bytes_max:
        one_by_one.add(encode_content(key, block, values[end]))
        end += 1
    middle = end // 2
    assert at_once.add_all(key, block, values[:middle], 0, 1 << 30) == middle
    assert at_once.add_all(key, block, values, middle, bytes_max) == end
    assert (at_once.count, at_once.size) == (one_by_one.count, one_by_one.size)
    assert at_once.seal() == one_by_one.seal()


@given(st.lists(st.tuples(st.integers(0, 1 << 41), CONTENTS), min_size=1, max_size=10), st.integers(0, 1 << 40))
def test_what_others_publish_is_read_the_same(records: list[Any], base: int) -> None:
    made = [
        Record(base + n, time, key, value, tuple(headers)) for n, (time, (key, value, headers)) in enumerate(records)
    ]
    found = decode_messages(encode_batch(made, base_offset=base), LANE)
    for message, record in zip(found, made, strict=True):
        assert (message.offset, message.timestamp_ms) == (record.offset, record.timestamp_ms)
        assert (message.key, message.value) == (record.key, record.value)
        assert message.headers == encode_headers(record.headers)


def facts(message: Message) -> tuple[Any, ...]:
    return message.offset, message.timestamp_ms, message.key, message.value, message.headers


def read_as_python(batch: bytearray) -> list[tuple[Any, ...]] | None:
    """What is read where nothing is compiled; None: it is refused."""
    try:
        return [facts(message) for message in _decode(*open_batch(batch), LANE)]
    except (IndexError, MalformedBytes, InvalidBatch):
        return None


@given(st.lists(CONTENTS, min_size=1, max_size=4), st.data())
def test_damaged_records_are_refused_or_read_but_never_worse(contents: list[Any], data: st.DataObject) -> None:
    made = [Record(n, 1, key, value, tuple(headers)) for n, (key, value, headers) in enumerate(contents)]
    batch = encode_batch(made)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    seal_batch(batch)
    same = read_as_python(batch)
    try:
        found = decode_messages(batch, LANE)
    except InvalidBatch:
        assert same is None
        return
    assert [facts(message) for message in found] == same
    offsets = [message.offset for message in found]
    assert offsets == sorted(set(offsets))
    for message in found:
        decode_headers(message.headers)
        ttl_of(message.headers)


def test_times_that_overflow_wrap_as_they_do_everywhere() -> None:
    for base, times in ((2**63 - 1, (2**63 - 1, 0)), (0, (-(2**63), 2**63 - 1))):
        batch = encode_batch([Record(n, time, None, b"", ()) for n, time in enumerate(times)], base_timestamp=base)
        assert [message.timestamp_ms for message in decode_messages(batch, LANE)] == list(times)


def test_a_time_to_live_is_a_number_or_nothing() -> None:
    assert ttl_of(encode_headers([("mainstem-ttl", b"250")])) == 250
    for content in (b"", b"-1", b"1e3", "२".encode(), b"9" * 30, None):
        assert ttl_of(encode_headers([("mainstem-ttl", content)])) == -1
    assert ttl_of(encode_headers([("other", b"mainstem-ttl")])) == -1


@given(st.text(max_size=60))
def test_every_name_is_a_topics_name_and_back(name: str) -> None:
    topic = topic_name_of(name)
    if topic is not None:
        assert queue_name_of(topic) == name
