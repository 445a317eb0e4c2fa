"""Properties of MQTT 5: which there are, what they hold, and in which packets they may stand (section 2.2.2.2)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, TypeAlias

from mainstem.protocols.mqtt.codec.fields import Reader, encode_binary, encode_text, encode_varint
from mainstem.protocols.mqtt.errors import malformed, protocol_error

Properties: TypeAlias = dict[str, Any]
"""By name. `user_property` is a list of pairs, `subscription_identifier` a list of numbers."""

NONE: Mapping[str, Any] = {}


class Kind(enum.Enum):
    """How a property is written."""

    FLAG = enum.auto()
    BYTE = enum.auto()
    TWO = enum.auto()
    FOUR = enum.auto()
    VARINT = enum.auto()
    BINARY = enum.auto()
    TEXT = enum.auto()
    PAIR = enum.auto()


class Holder(enum.Enum):
    """What has properties."""

    CONNECT = enum.auto()
    WILL = enum.auto()
    CONNACK = enum.auto()
    PUBLISH = enum.auto()
    ACK = enum.auto()
    """PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK."""
    SUBSCRIBE = enum.auto()
    UNSUBSCRIBE = enum.auto()
    DISCONNECT = enum.auto()
    AUTH = enum.auto()


_CONTENT = frozenset({Holder.PUBLISH, Holder.WILL})
_ANSWERS = frozenset({Holder.CONNACK, Holder.ACK, Holder.DISCONNECT, Holder.AUTH})
_AUTHENTICATION = frozenset({Holder.CONNECT, Holder.CONNACK, Holder.AUTH})
_LINK = frozenset({Holder.CONNECT, Holder.CONNACK})
_CONNECT, _CONNACK = frozenset({Holder.CONNECT}), frozenset({Holder.CONNACK})

TABLE: dict[int, tuple[str, Kind, frozenset[Holder]]] = {
    0x01: ("payload_format_indicator", Kind.FLAG, _CONTENT),
    0x02: ("message_expiry_interval", Kind.FOUR, _CONTENT),
    0x03: ("content_type", Kind.TEXT, _CONTENT),
    0x08: ("response_topic", Kind.TEXT, _CONTENT),
    0x09: ("correlation_data", Kind.BINARY, _CONTENT),
    0x0B: ("subscription_identifier", Kind.VARINT, frozenset({Holder.PUBLISH, Holder.SUBSCRIBE})),
    0x11: ("session_expiry_interval", Kind.FOUR, _LINK | {Holder.DISCONNECT}),
    0x12: ("assigned_client_identifier", Kind.TEXT, _CONNACK),
    0x13: ("server_keep_alive", Kind.TWO, _CONNACK),
    0x15: ("authentication_method", Kind.TEXT, _AUTHENTICATION),
    0x16: ("authentication_data", Kind.BINARY, _AUTHENTICATION),
    0x17: ("request_problem_information", Kind.FLAG, _CONNECT),
    0x18: ("will_delay_interval", Kind.FOUR, frozenset({Holder.WILL})),
    0x19: ("request_response_information", Kind.FLAG, _CONNECT),
    0x1A: ("response_information", Kind.TEXT, _CONNACK),
    0x1C: ("server_reference", Kind.TEXT, frozenset({Holder.CONNACK, Holder.DISCONNECT})),
    0x1F: ("reason_string", Kind.TEXT, _ANSWERS),
    0x21: ("receive_maximum", Kind.TWO, _LINK),
    0x22: ("topic_alias_maximum", Kind.TWO, _LINK),
    0x23: ("topic_alias", Kind.TWO, frozenset({Holder.PUBLISH})),
    0x24: ("maximum_qos", Kind.FLAG, _CONNACK),
    0x25: ("retain_available", Kind.FLAG, _CONNACK),
    0x26: ("user_property", Kind.PAIR, frozenset(Holder)),
    0x27: ("maximum_packet_size", Kind.FOUR, _LINK),
    0x28: ("wildcard_subscription_available", Kind.FLAG, _CONNACK),
    0x29: ("subscription_identifier_available", Kind.FLAG, _CONNACK),
    0x2A: ("shared_subscription_available", Kind.FLAG, _CONNACK),
}
CODES = {name: (code, kind) for code, (name, kind, _) in TABLE.items()}
NOT_ZERO = frozenset({"receive_maximum", "maximum_packet_size", "subscription_identifier"})


def decode_properties(reader: Reader, holder: Holder) -> Properties:
    """With their length before them."""
    size = reader.varint()
    if not size:
        return {}
    part = reader.part(size)
    found: Properties = {}
    while part.left:
        _decode_one(part, holder, found)
    if "authentication_data" in found and "authentication_method" not in found:
        raise protocol_error("authentication data without a method")
    return found


def _decode_one(part: Reader, holder: Holder, found: Properties) -> None:
    code = part.varint()
    entry = TABLE.get(code)
    if entry is None or holder not in entry[2]:
        raise malformed(f"property {code:#x} has no place in {holder.name}")
    name, kind, _ = entry
    value = _decode_value(part, kind)
    if kind is Kind.FLAG and value > 1:
        raise protocol_error(f"{name} is neither 0 nor 1")
    if name in NOT_ZERO and not value:
        raise protocol_error(f"{name} is 0")
    if kind is Kind.PAIR or (name == "subscription_identifier" and holder is Holder.PUBLISH):
        found.setdefault(name, []).append(value)
    elif name in found:
        raise protocol_error(f"{name} stands twice")
    else:
        found[name] = value


def _decode_value(part: Reader, kind: Kind) -> Any:
    match kind:
        case Kind.FLAG | Kind.BYTE:
            return part.byte()
        case Kind.TWO:
            return part.two()
        case Kind.FOUR:
            return part.four()
        case Kind.VARINT:
            return part.varint()
        case Kind.BINARY:
            return part.binary()
        case Kind.TEXT:
            return part.text()
        case Kind.PAIR:
            return part.text(), part.text()


def encode_properties(properties: Mapping[str, Any]) -> bytes:
    """With their length before them."""
    if not properties:
        return b"\0"
    body = encode_entries(properties)
    return encode_varint(len(body)) + body


def encode_entries(properties: Mapping[str, Any]) -> bytes:
    """Without it."""
    out = bytearray()
    for name, value in properties.items():
        code, kind = CODES[name]
        for one in value if isinstance(value, list) else (value,):
            out.append(code)
            out += _encode_value(kind, one)
    return bytes(out)


def _encode_value(kind: Kind, value: Any) -> bytes:
    match kind:
        case Kind.FLAG | Kind.BYTE:
            return bytes((value,))
        case Kind.TWO:
            return bytes(value.to_bytes(2, "big"))
        case Kind.FOUR:
            return bytes(value.to_bytes(4, "big"))
        case Kind.VARINT:
            return encode_varint(value)
        case Kind.BINARY:
            return encode_binary(value)
        case Kind.TEXT:
            return encode_text(value)
        case Kind.PAIR:
            return encode_text(value[0]) + encode_text(value[1])
