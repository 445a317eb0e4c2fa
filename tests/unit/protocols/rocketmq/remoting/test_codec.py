"""Commands, messages and properties as bytes: what is written is read again, and garbage is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.protocols.rocketmq.codec.remoting.commands import Command, decode_command, encode_command
from mainstem.protocols.rocketmq.codec.remoting.messages import StoredMessage, decode_batch, encode_message
from mainstem.protocols.rocketmq.codec.remoting.properties import (
    PROPERTIES_BYTES_MAX,
    decode_properties,
    encode_properties,
)
from mainstem.protocols.rocketmq.errors import MalformedFrame
from tests.support.clients.remoting_client import batch, frame, messages

TEXTS = st.text(max_size=20)
INTS = st.integers(-(2**31) + 1, 2**31 - 1)
SHORTS = st.integers(-(2**15), 2**15 - 1)
COMMANDS = st.builds(
    Command, SHORTS, INTS, st.dictionaries(TEXTS, TEXTS, max_size=5), st.binary(max_size=50), INTS, SHORTS,
    st.none() | st.text(min_size=1, max_size=20), is_binary=st.booleans(),
)  # fmt: skip
NAMES = st.text("abc_", min_size=1, max_size=5)
PROPERTIES = st.dictionaries(NAMES, st.text("xyz ü=", max_size=10), max_size=5)


def encoded(command: Command) -> bytes:
    return b"".join(bytes(part) for part in encode_command(command))


@given(COMMANDS)
def test_commands(command: Command) -> None:
    data = encoded(command)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert decode_command(data[4:]) == command


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_read(data: bytes) -> None:
    for kind in (b"\x00", b"\x01"):
        with_kind = kind + max(len(data) - 10, 0).to_bytes(3, "big") + data
        try:
            decode_command(with_kind)
        except MalformedFrame:
            pass
    try:
        decode_batch(data)
    except MalformedFrame:
        pass


@given(COMMANDS, st.data())
def test_a_broken_command_is_refused_or_read(command: Command, data: st.DataObject) -> None:
    whole = bytearray(encoded(command)[4:])
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for broken in (bytes(whole), bytes(whole[:cut])):
        try:
            decode_command(broken)
        except MalformedFrame:
            pass


@given(st.lists(st.tuples(st.binary(max_size=30), PROPERTIES), max_size=5), st.data())
def test_batches(sent: list[tuple[bytes, dict[str, str]]], data: st.DataObject) -> None:
    whole = batch(sent)
    assert [(message.body, message.properties) for message in decode_batch(whole)] == sent
    cut = data.draw(st.integers(0, len(whole)))
    try:
        decode_batch(whole[:cut])
    except MalformedFrame:
        pass


@given(st.binary(max_size=100), PROPERTIES, st.integers(0, 2**62), st.sampled_from(["t", "x" * 127, "x" * 200]))
def test_messages(body: bytes, properties: dict[str, str], place: int, topic: str) -> None:
    message = StoredMessage(topic, 3, 5, place, body, properties, 7, 8, reconsume_times=2, flag=9)
    (found,) = messages(encode_message(message))
    assert found == (topic, 3, 5, place, body, properties, 2, 7, 9)


def test_properties_that_do_not_fit_are_left_out() -> None:
    written = encode_properties({"a": "x" * 20_000, "b": "y" * 20_000, "c": "z"})
    assert len(written) <= PROPERTIES_BYTES_MAX
    assert decode_properties(written.decode()) == {"a": "x" * 20_000, "c": "z"}
    assert decode_properties("noise\x02a\x01b\x02\x01c\x02") == {"a": "b"}


def test_numbers_of_a_header_may_be_bare() -> None:
    head = b'{"code":11,"opaque":3,"flag":0,"extFields":{"queueId":5,"unitMode":false,"none":null}}'
    command = decode_command(len(head).to_bytes(4, "big") + head)
    assert command.fields == {"queueId": "5", "unitMode": "false"}
    with pytest.raises(MalformedFrame):
        decode_command(frame(11)[4:].replace(b'"opaque": 0', b'"opaque": 99999999999'))
