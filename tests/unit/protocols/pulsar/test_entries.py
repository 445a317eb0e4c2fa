"""Entries become records and records become entries; garbage is refused."""

import zlib
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.protocols.pulsar.codec.batches import LZ4, NONE, SNAPPY, ZLIB, ZSTD, decompress, join, split
from mainstem.protocols.pulsar.codec.frames import (
    Entry,
    WrongChecksum,
    decode_entry,
    decode_frame,
    encode_entry,
    encode_frame,
)
from mainstem.protocols.pulsar.codec.schema import METADATA, SINGLE, Kind, command
from mainstem.protocols.pulsar.errors import MalformedFrame
from mainstem.protocols.pulsar.mapping.messages import due_ms_of, entry_of, place_of_message, records_of, unit_of
from mainstem.wire.messages.stored_messages import decode_messages
from mainstem.wire.record_batch import encode_batch

BYTES_MAX = 1 << 20
TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=12)
NAMES = TEXTS.filter(lambda name: not name.startswith("mainstem-"))
PROPERTIES = st.lists(st.tuples(NAMES, TEXTS.filter(lambda text: not text.startswith("mainstem-"))), max_size=4)
TIMES = st.integers(0, 2**52)
MESSAGES = st.tuples(st.none() | TEXTS, PROPERTIES, st.binary(max_size=60), TIMES, st.booleans(), st.binary(max_size=6))


def compressed(codec: int, data: bytes) -> bytes:
    match codec:
        case 0:
            return data
        case 1:
            return bytes(cramjam.lz4.compress_block(data, store_size=False))
        case 2:
            return zlib.compress(data)
        case 3:
            return bytes(cramjam.zstd.compress(data))
        case _:
            return bytes(cramjam.snappy.compress_raw(data))


def describe(described: Any, message: Any) -> Any:
    key, properties, _, time_ms, is_null, ordering = message
    if key is not None:
        described.partition_key = key
    for name, text in properties:
        described.properties.add(key=name, value=text)
    if time_ms:
        described.event_time = time_ms
    if is_null:
        described.null_value = True
    if ordering:
        described.ordering_key = ordering
    return described


def stored(entry: Entry) -> list[Any]:
    """The messages of a batch as a log gives them."""
    records = records_of(entry, BYTES_MAX)
    batch = encode_batch(
        (number, one.timestamp_ms, one.key, one.value, one.headers) for number, one in enumerate(records)
    )
    messages = decode_messages(bytes(batch), None)
    assert [(one.key, one.value) for one in messages] == [(one.key, one.value or b"") for one in records]
    return messages


def facts(described: Any) -> Any:
    properties = [(one.key, one.value) for one in described.properties]
    return (described.partition_key, properties, described.event_time, described.null_value, described.ordering_key)


@given(st.lists(MESSAGES, min_size=1, max_size=8), st.sampled_from([NONE, LZ4, ZLIB, ZSTD, SNAPPY]))
def test_a_batch_comes_back_as_it_was_sent(messages: list[Any], codec: int) -> None:
    singles = [
        (
            describe(SINGLE(payload_size=0 if one[4] else len(one[2]), sequence_id=number), one),
            b"" if one[4] else one[2],
        )
        for number, one in enumerate(messages)
    ]
    body = join(singles)
    metadata = METADATA(producer_name="p", sequence_id=7, publish_time=8, schema_version=b"v", compression=codec)
    metadata.uncompressed_size = len(body)
    metadata.num_messages_in_batch = len(messages)
    entry = decode_entry(memoryview(encode_entry(metadata.SerializeToString(), compressed(codec, body))))
    found = stored(entry)
    assert [unit_of(one) for one in found] == [(0, len(messages) - 1)] * len(messages)
    back = decode_entry(memoryview(entry_of(found)))
    assert (back.metadata.producer_name, back.metadata.sequence_id, back.metadata.schema_version) == ("p", 7, b"v")
    assert (back.metadata.publish_time, back.metadata.num_messages_in_batch) == (8, len(messages))
    pieces = split(bytes(back.payload), len(messages))
    assert [(facts(single), single.sequence_id, payload) for single, payload in pieces] == [
        (facts(single), single.sequence_id, payload) for single, payload in singles
    ]


@given(MESSAGES, st.sampled_from([NONE, LZ4, ZLIB, ZSTD, SNAPPY]))
def test_a_message_alone_comes_back(message: Any, codec: int) -> None:
    body = message[2]
    metadata = describe(METADATA(producer_name="p", sequence_id=7, publish_time=8, compression=codec), message)
    metadata.uncompressed_size = len(body)
    (found,) = stored(decode_entry(memoryview(encode_entry(metadata.SerializeToString(), compressed(codec, body)))))
    assert unit_of(found) == (0, 0)
    back = decode_entry(memoryview(entry_of([found])))
    assert facts(back.metadata) == facts(metadata)
    assert not back.metadata.HasField("num_messages_in_batch")
    assert bytes(back.payload) == (b"" if message[4] else body)


def test_a_part_of_a_batch_keeps_its_places() -> None:
    body = join([(SINGLE(payload_size=1), b"%d" % number) for number in range(5)])
    metadata = METADATA(producer_name="p", num_messages_in_batch=5, uncompressed_size=len(body))
    found = stored(decode_entry(memoryview(encode_entry(metadata.SerializeToString(), body))))
    back = decode_entry(memoryview(entry_of([found[1], found[3]])))
    pieces = split(bytes(back.payload), 5)
    assert [payload for _, payload in pieces] == [b"", b"1", b"", b"3", b""]
    assert [single.compacted_out for single, _ in pieces] == [True, False, True, False, True]


def test_what_is_encrypted_stays_one_record() -> None:
    metadata = METADATA(producer_name="p", num_messages_in_batch=3, compression=ZLIB, uncompressed_size=99)
    metadata.encryption_keys.add(key="k", value=b"v")
    (found,) = stored(decode_entry(memoryview(encode_entry(metadata.SerializeToString(), b"secret"))))
    assert place_of_message(found).permits == 3
    back = decode_entry(memoryview(entry_of([found])))
    assert bytes(back.payload) == b"secret"
    assert (back.metadata.num_messages_in_batch, back.metadata.compression) == (3, ZLIB)
    assert back.metadata.uncompressed_size == 99


def test_due_times() -> None:
    metadata = METADATA(producer_name="p", deliver_at_time=12_345)
    (found,) = stored(decode_entry(memoryview(encode_entry(metadata.SerializeToString(), b"x"))))
    assert due_ms_of(found) == 12_345
    assert decode_entry(memoryview(entry_of([found]))).metadata.deliver_at_time == 12_345


@pytest.mark.parametrize("mark", [b"", b"1", b"9:1::", b"0:3:!:", b"0:3:AAAA:AAAA", b"1:999999999:x:y", b"x:y:z:a"])
def test_a_foreign_header_of_our_name_does_no_harm(mark: bytes) -> None:
    batch = encode_batch([(0, 5, b"\xff", b"value", [("mainstem-pulsar", mark), ("own", b"\xfe")])])
    (found,) = decode_messages(bytes(batch), None)
    unit_of(found)
    back = decode_entry(memoryview(entry_of([found])))
    if back.metadata.producer_name == "mainstem":
        assert back.metadata.partition_key_b64_encoded
        assert [(one.key, one.value) for one in back.metadata.properties] == [("own", "mainstem-base64:/g==")]
        assert bytes(back.payload) == b"value"


def test_a_binary_header_comes_back_as_it_was() -> None:
    metadata = METADATA(producer_name="p")
    metadata.properties.add(key="own", value="mainstem-base64:/g==")
    (record,) = records_of(Entry(metadata, b"x", b""), BYTES_MAX)
    assert record.headers[1:] == [("own", b"\xfe")]


def test_a_wrong_checksum_is_told() -> None:
    entry = bytearray(encode_entry(b"", b"payload"))
    entry[-1] ^= 1
    with pytest.raises(WrongChecksum):
        decode_entry(memoryview(entry))


@given(st.binary(max_size=80))
def test_garbage_is_refused_or_read(data: bytes) -> None:
    for read in (decode_frame, decode_entry):
        try:
            read(memoryview(data))  # type: ignore[operator]
        except (MalformedFrame, WrongChecksum):
            pass
    for codec in range(6):
        try:
            decompress(codec, data, 100, BYTES_MAX)
        except MalformedFrame:
            pass
    try:
        split(data, 3)
    except MalformedFrame:
        pass


def test_a_small_payload_that_says_it_is_large_costs_nothing() -> None:
    with pytest.raises(MalformedFrame):
        decompress(ZLIB, b"x", 1 << 40, BYTES_MAX)


def test_frames() -> None:
    data = b"".join(bytes(part) for part in encode_frame(command(Kind.SEND, producer_id=1, sequence_id=2), b"entry"))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    said, rest = decode_frame(memoryview(data)[4:])
    assert (said.send.producer_id, said.send.sequence_id, bytes(rest)) == (1, 2, b"entry")
