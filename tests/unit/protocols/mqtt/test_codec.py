"""Packets of MQTT byte by byte: what may be read comes back, everything else is refused with its reason."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.protocols.mqtt.codec.encoding import encode_ack, encode_connack, encode_publish_head
from mainstem.protocols.mqtt.codec.fields import Reader, encode_text, encode_varint
from mainstem.protocols.mqtt.codec.packets import (
    V3_1_1,
    V5,
    Ack,
    PacketType,
    Publish,
    Wish,
    decode_connect,
    decode_packet,
    decode_publish,
)
from mainstem.protocols.mqtt.codec.properties import CODES, TABLE, Holder, Kind, decode_properties, encode_properties
from mainstem.protocols.mqtt.errors import MqttError, Reason

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.FLAG: st.integers(0, 1),
    Kind.BYTE: st.integers(0, 255),
    Kind.TWO: st.integers(1, 0xFFFF),
    Kind.FOUR: st.integers(1, 0xFFFFFFFF),
    Kind.VARINT: st.integers(1, 268_435_455),
    Kind.BINARY: st.binary(max_size=40),
    Kind.TEXT: texts,
    Kind.PAIR: st.lists(st.tuples(texts, texts), min_size=1, max_size=4),
}


@st.composite
def properties_of(draw: st.DrawFn) -> tuple[Holder, dict[str, Any]]:
    holder = draw(st.sampled_from(Holder))
    known = [(name, kind) for name, kind, holders in TABLE.values() if holder in holders]
    chosen = draw(st.lists(st.sampled_from(known), unique_by=lambda one: one[0]))
    found = {name: draw(VALUES[kind]) for name, kind in chosen}
    if "authentication_data" in found:
        found["authentication_method"] = draw(texts)
    if holder is Holder.PUBLISH and "subscription_identifier" in found:
        found["subscription_identifier"] = [found["subscription_identifier"]]
    return holder, found


@given(properties_of())
def test_properties_come_back(drawn: tuple[Holder, dict[str, Any]]) -> None:
    holder, properties = drawn
    reader = Reader(encode_properties(properties))
    assert decode_properties(reader, holder) == properties
    assert not reader.left


@given(st.integers(0, 268_435_455))
def test_variable_byte_integers_come_back(value: int) -> None:
    encoded = encode_varint(value)
    assert len(encoded) <= 4
    assert Reader(encoded).varint() == value


@given(texts.filter(lambda text: not set("+#") & set(text)), st.binary(max_size=100), st.integers(0, 2), st.booleans())
def test_a_publish_comes_back(topic: str, payload: bytes, qos: int, retain: bool) -> None:
    for version, properties in ((V3_1_1, b""), (V5, b"\0")):
        first = qos << 1 | retain
        packet = encode_publish_head(topic, len(payload), first, 7 if qos else 0, properties) + payload
        reader = Reader(packet[1:])
        assert reader.varint() == reader.left
        found = decode_publish(packet[0], reader.rest(), version)
        assert found == Publish(topic, payload, qos, retain, False, 7 if qos else 0)


@given(st.integers(0, 255), st.binary(max_size=80), st.sampled_from([V3_1_1, V5]))
def test_garbage_is_refused_with_a_reason_or_read(first: int, body: bytes, version: int) -> None:
    for decode in (lambda: decode_packet(first, body, version), lambda: decode_connect(first, body)):
        with contextlib.suppress(MqttError):
            decode()


CONNECT = encode_text("MQTT")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (CONNECT + b"\x05\x01\x00\x3c\x00\x00\x01a", Reason.MALFORMED_PACKET),  # the reserved flag
        (CONNECT + b"\x05\x1c\x00\x3c\x00\x00\x01a", Reason.MALFORMED_PACKET),  # will of QoS 3
        (CONNECT + b"\x05\x20\x00\x3c\x00\x00\x01a", Reason.MALFORMED_PACKET),  # retain without a will
        (CONNECT + b"\x04\x42\x00\x3c\x00\x01a\x00\x00", Reason.MALFORMED_PACKET),  # password without user
        (CONNECT + b"\x05\x02\x00\x3c\x00\x00\x01aX", Reason.MALFORMED_PACKET),  # more than there may be
        (CONNECT + b"\x05\x02\x00\x3c\x00\x00\x02a", Reason.MALFORMED_PACKET),  # less
        (CONNECT + b"\x05\x02\x00\x3c\x00\x00\x01\x00", Reason.MALFORMED_PACKET),  # null character
        (CONNECT + b"\x05\x02\x00\x3c\x00\x00\x01\xff", Reason.MALFORMED_PACKET),  # no UTF-8
        (CONNECT + b"\x05\x02\x00\x3c\x00\x00\x03\xed\xa0\x80", Reason.MALFORMED_PACKET),  # a surrogate
        (CONNECT + b"\x05\x02\x00\x3c\x03\x21\x00\x00\x00\x01a", Reason.PROTOCOL_ERROR),  # receive maximum 0
        (CONNECT + b"\x05\x02\x00\x3c\x06\x21\x00\x01\x21\x00\x01\x00\x01a", Reason.PROTOCOL_ERROR),  # twice
        (CONNECT + b"\x05\x02\x00\x3c\x03\x23\x00\x01\x00\x01a", Reason.MALFORMED_PACKET),  # of another packet
        (CONNECT + b"\x05\x02\x00\x3c\x02\x17\x02\x00\x01a", Reason.PROTOCOL_ERROR),  # neither 0 nor 1
        (CONNECT + b"\x05\x02\x00\x3c\x04\x16\x00\x01x\x00\x01a", Reason.PROTOCOL_ERROR),  # data without a method
        (CONNECT + b"\x06\x02\x00\x3c\x00\x00\x01a", Reason.UNSUPPORTED_PROTOCOL_VERSION),
        (CONNECT + b"\x03\x02\x00\x3c\x00\x00\x01a", Reason.UNSUPPORTED_PROTOCOL_VERSION),
        (CONNECT + b"\x85\x02\x00\x3c\x00\x00\x01a", Reason.UNSUPPORTED_PROTOCOL_VERSION),
        (encode_text("HTTP") + b"\x05\x02\x00\x3c\x00\x00\x01a", Reason.MALFORMED_PACKET),
    ],
)
def test_a_connect_that_may_not_be_is_refused(body: bytes, reason: Reason) -> None:
    with pytest.raises(MqttError) as refused:
        decode_connect(0x10, body)
    assert refused.value.reason is reason


@pytest.mark.parametrize(
    ("first", "body", "version", "reason"),
    [
        (0x36, b"\x00\x01a\x00\x01\x00", V5, Reason.MALFORMED_PACKET),  # QoS 3
        (0x38, b"\x00\x01a\x00", V5, Reason.MALFORMED_PACKET),  # DUP at QoS 0
        (0x32, b"\x00\x01a\x00\x00\x00", V5, Reason.PROTOCOL_ERROR),  # identifier 0
        (0x30, b"\x00\x01#\x00", V5, Reason.TOPIC_NAME_INVALID),
        (0x30, b"\x00", V3_1_1, Reason.MALFORMED_PACKET),
        (0x30, b"\x00\x03ab", V3_1_1, Reason.MALFORMED_PACKET),
        (0x30, b"\x00\x01a\x05\x01", V5, Reason.MALFORMED_PACKET),
        (0x80, b"\x00\x01\x00\x00\x01a\x00", V5, Reason.MALFORMED_PACKET),  # flags of SUBSCRIBE
        (0x82, b"\x00\x01\x00\x00\x01a\x03", V5, Reason.MALFORMED_PACKET),
        (0x82, b"\x00\x01\x00\x00\x01a\x40", V5, Reason.MALFORMED_PACKET),
        (0x82, b"\x00\x01\x00\x00\x01a\x30", V5, Reason.PROTOCOL_ERROR),  # retain handling 3
        (0x82, b"\x00\x01\x00\x01a\x04", V3_1_1, Reason.MALFORMED_PACKET),
        (0x82, b"\x00\x01\x00", V5, Reason.PROTOCOL_ERROR),  # no filter
        (0x82, b"\x00\x01\x02\x0b\x00\x00\x01a\x00", V5, Reason.PROTOCOL_ERROR),  # subscription identifier 0
        (0xA2, b"\x00\x01\x00", V5, Reason.PROTOCOL_ERROR),
        (0x60, b"\x00\x01", V3_1_1, Reason.MALFORMED_PACKET),
        (0x40, b"\x00", V3_1_1, Reason.MALFORMED_PACKET),
        (0x40, b"\x00\x01\x00", V3_1_1, Reason.MALFORMED_PACKET),
        (0xC0, b"\x00", V3_1_1, Reason.MALFORMED_PACKET),
        (0xF0, b"", V3_1_1, Reason.PROTOCOL_ERROR),
        (0x00, b"", V5, Reason.MALFORMED_PACKET),
        (0x20, b"\x00\x00", V5, Reason.PROTOCOL_ERROR),
    ],
)
def test_a_packet_that_may_not_be_is_refused(first: int, body: bytes, version: int, reason: Reason) -> None:
    with pytest.raises(MqttError) as refused:
        decode_packet(first, body, version)
    assert refused.value.reason is reason


def test_what_clients_say_is_read() -> None:
    assert decode_packet(0x40, b"\x00\x09", V5) == Ack(PacketType.PUBACK, 9)
    assert decode_packet(0x50, b"\x00\x09\x92\x00", V5) == Ack(PacketType.PUBREC, 9, 0x92, {})
    subscribe = decode_packet(0x82, b"\x00\x01\x00\x00\x03a/#\x2d", V5)
    assert subscribe == (1, [Wish("a/#", 1, True, True, 2)], {})
    connect = decode_connect(0x10, encode_text("MQIsdp") + b"\x83\x02\x00\x3c\x00\x01a")
    assert (connect.version, connect.is_bridge, connect.client_id) == (3, True, "a")


def test_answers_are_short_where_they_can_be() -> None:
    assert encode_ack(PacketType.PUBREL, 258, V5) == b"\x62\x02\x01\x02"
    assert encode_ack(PacketType.PUBACK, 1, V5, 0x97) == b"\x40\x03\x00\x01\x97"
    assert encode_connack(V3_1_1, True, 0) == b"\x20\x02\x01\x00"
    assert encode_connack(V5, False, 0, {"receive_maximum": 5}) == b"\x20\x06\x00\x00\x03\x21\x00\x05"
    assert len(CODES) == 27
