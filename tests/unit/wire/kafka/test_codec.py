"""Tables turned into functions: round trips of everything, truncation, garbage, limits."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.model.errors import PeerError
from mainstem.wire.errors import (
    BufferUnderflow,
    InvalidLength,
    InvalidText,
    MalformedBytes,
    TooManyElements,
    UnexpectedNull,
    UnknownMessage,
)
from mainstem.wire.kafka import APIS, ZERO_UUID, Message
from mainstem.wire.kafka.codec import decode_message, encode_message
from tests.unit.wire.kafka.message_strategies import MESSAGES, versioned_values

EVERY_MESSAGE = pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
# there are 146 messages, so each gets a share of the profile's examples
SHARE = settings(max_examples=settings().max_examples // 4)
SMALL_SHARE = settings(max_examples=settings().max_examples // 12)


def encoded(message: Message, version: int, value: Any) -> bytes:
    out = bytearray()
    encode_message(out, message, version, value)
    return bytes(out)


def table(text: str, *, flexible_from: int | None = None, versions: tuple[int, int] = (0, 9)) -> Message:
    return Message("Test", versions, flexible_from, text)


@EVERY_MESSAGE
@SHARE
@given(data=st.data())
def test_round_trip(message: Message, data: st.DataObject) -> None:
    version, value = data.draw(versioned_values(message))
    raw = encoded(message, version, value)
    decoded, end = decode_message(message, version, b"###" + raw + b"###", 3)
    assert end == len(raw) + 3
    assert decoded == value


@EVERY_MESSAGE
@SMALL_SHARE
@given(data=st.data())
def test_every_truncation_is_a_typed_error(message: Message, data: st.DataObject) -> None:
    version, value = data.draw(versioned_values(message))
    raw = encoded(message, version, value)
    step = max(1, len(raw) // 40)
    for cut in {*range(0, len(raw), step), len(raw) - 1} - {-1}:
        with pytest.raises(MalformedBytes):
            decode_message(message, version, raw[:cut])


@EVERY_MESSAGE
@SHARE
@given(data=st.data())
def test_garbage_is_a_value_or_a_typed_error(message: Message, data: st.DataObject) -> None:
    version, value = data.draw(versioned_values(message))
    raw = bytearray(encoded(message, version, value))
    for _ in range(data.draw(st.integers(1, 4))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    for attempt in (raw, data.draw(st.binary(max_size=60))):
        try:
            decode_message(message, version, attempt)
        except MalformedBytes:
            pass


@EVERY_MESSAGE
def test_defaults_can_be_written_in_every_version(message: Message) -> None:
    for version in range(message.versions.first, message.versions.last + 1):
        assert decode_message(message, version, encoded(message, version, {}))[0] == message.type()


def test_versions_that_do_not_exist_are_refused() -> None:
    fetch = APIS[1].request
    for version in (-1, 3, 19):
        with pytest.raises(UnknownMessage):
            decode_message(fetch, version, b"")
        with pytest.raises(PeerError):
            encoded(fetch, version, {})


def test_dicts_and_structs_are_written_alike() -> None:
    message = table("name: string\nrows: []Row\n    id: int32\n    label: string? default=null")
    rows = message.schema.fields[1].struct
    assert rows is not None
    as_structs = message.type(name="n", rows=[rows.type(id=4), rows.type(id=5, label="five")])
    as_dicts = {"name": "n", "rows": [{"id": 4}, {"id": 5, "label": "five"}]}
    assert encoded(message, 0, as_dicts) == encoded(message, 0, as_structs)
    assert encoded(message, 0, as_dicts).hex() == "00016e0000000200000004ffff00000005000466697665"


def test_a_field_that_does_not_exist_is_our_own_bug() -> None:
    with pytest.raises(TypeError):
        encoded(table("name: string"), 0, {"nmae": "typo"})


def test_null_is_refused_where_it_is_not_allowed() -> None:
    for kind, raw in (("string", "ffff"), ("bytes", "ffffffff"), ("[]int32", "ffffffff"), ("[]string", "ffffffff")):
        message = table(f"field: {kind}?2+")
        with pytest.raises(UnexpectedNull):
            decode_message(message, 1, bytes.fromhex(raw))
        assert decode_message(message, 2, bytes.fromhex(raw))[0].field is None
        with pytest.raises(AssertionError):
            encoded(message, 1, {"field": None})
        assert encoded(message, 2, {"field": None}).hex() == raw


def test_nullable_struct() -> None:
    message = table("row: Row? default=null\n    id: int8", flexible_from=0)
    assert encoded(message, 0, {}).hex() == "ff00"
    assert encoded(message, 0, {"row": {"id": 7}}).hex() == "01070000"
    assert decode_message(message, 0, bytes.fromhex("01070000"))[0].row.id == 7
    assert decode_message(message, 0, bytes.fromhex("ff00"))[0].row is None


def test_compact_forms() -> None:
    message = table("a: string\nb: bytes?\nc: []int16\nd: uuid", flexible_from=0)
    value = {"a": "abc", "b": None, "c": [1, -1], "d": ZERO_UUID}
    assert encoded(message, 0, value).hex() == "0461626300030001ffff" + "00" * 16 + "00"


def test_tagged_fields_are_written_in_order_and_only_if_they_differ() -> None:
    message = table("b: int32 tag=1 default=5\na: string? tag=0 default=null\nc: []int8 tag=2", flexible_from=0)
    assert encoded(message, 0, {}).hex() == "00"
    assert encoded(message, 0, {"a": "x", "b": 5, "c": []}).hex() == "0100020278"
    assert encoded(message, 0, {"a": "x", "b": 6}).hex() == "0200020278010400000006"


def test_unknown_tags_are_skipped() -> None:
    message = table("a: int8 tag=1", flexible_from=0)
    value, end = decode_message(message, 0, bytes.fromhex("030002aabb0101056300"))
    assert (value.a, end) == (5, 10)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ("01010005", BufferUnderflow),  # too short for its field, although bytes follow
        ("01010205ff", InvalidLength),  # longer than its field
        ("0101ff0f05", InvalidLength),  # longer than the message
        ("05", BufferUnderflow),  # more fields announced than there are
        ("ffffffff7f", MalformedBytes),
    ],
)
def test_lying_tag_sections_are_refused(raw: str, error: type[MalformedBytes]) -> None:
    message = table("a: int8 tag=1", flexible_from=0)
    with pytest.raises(error):
        decode_message(message, 0, bytes.fromhex(raw))


def test_a_tagged_field_cannot_read_past_its_own_end() -> None:
    message = table("a: string tag=1", flexible_from=0)
    with pytest.raises(MalformedBytes):
        decode_message(message, 0, bytes.fromhex("0101020461626300"))


def test_lengths_are_checked_before_anything_is_allocated() -> None:
    cases = {
        "string": ["7fff61", "fffe"],
        "bytes": ["7fffffff61", "fffffffe"],
        "records": ["7fffffff61"],
        "[]int64": ["0fffffff", "fffffffe"],
        "[]string": ["7fffffff"],
        "[]Row\n    id: int8": ["7fffffff00"],
    }
    for kind, raws in cases.items():
        for raw in raws:
            with pytest.raises((InvalidLength, TooManyElements)):
                decode_message(table(f"field: {kind}"), 0, bytes.fromhex(raw))


def test_elements_are_limited_over_the_whole_message() -> None:
    message = table("rows: []Row\n    cells: []int8")
    raw = encoded(message, 0, {"rows": [{"cells": [1] * 10}] * 10})
    assert len(decode_message(message, 0, raw, elements_max=110)[0].rows) == 10
    with pytest.raises(TooManyElements):
        decode_message(message, 0, raw, elements_max=109)


def test_elements_of_no_size_are_limited_too() -> None:
    message = table("rows: []Row\n    later: int8 5+")
    with pytest.raises(TooManyElements):
        decode_message(message, 0, bytes.fromhex("7fffffff"))


def test_text_must_be_utf8() -> None:
    with pytest.raises(InvalidText):
        decode_message(table("a: string"), 0, b"\x00\x02\xff\xfe")


def test_records_are_not_copied() -> None:
    message = table("a: records?")
    buffer = bytearray(b"\x00\x00\x00\x03abc")
    view = decode_message(message, 0, buffer)[0].a
    buffer[4] = ord("X")
    assert bytes(view) == b"Xbc"
