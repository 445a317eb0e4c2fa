"""Control packets: what each holds, and how it is read (MQTT 5, section 3; 3.1.1, section 3)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from mainstem.protocols.mqtt.codec.fields import Reader, decode_text
from mainstem.protocols.mqtt.codec.properties import NONE, Holder, decode_properties
from mainstem.protocols.mqtt.errors import MqttError, Reason, malformed, protocol_error


class PacketType(enum.IntEnum):
    """The first four bits."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


V3_1, V3_1_1, V5 = 3, 4, 5
NAMES = {V3_1: "MQIsdp", V3_1_1: "MQTT", V5: "MQTT"}
BRIDGE = 0x80
"""What mosquitto's bridges add to the level of the protocol."""
_FLAGS_TWO = frozenset({PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE})


class Will(NamedTuple):
    """What is published when the client vanishes."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Mapping[str, Any] = NONE


class Connect(NamedTuple):
    """CONNECT."""

    version: int
    is_bridge: bool
    client_id: str
    clean_start: bool
    keep_alive_s: int
    user: str | None
    password: bytes | None
    will: Will | None
    properties: Mapping[str, Any] = NONE


class Publish(NamedTuple):
    """PUBLISH."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int
    properties: Mapping[str, Any] = NONE


class Ack(NamedTuple):
    """PUBACK, PUBREC, PUBREL, PUBCOMP."""

    type: PacketType
    packet_id: int
    reason: int = 0
    properties: Mapping[str, Any] = NONE


class Wish(NamedTuple):
    """One filter of a SUBSCRIBE."""

    filter: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(NamedTuple):
    """SUBSCRIBE."""

    packet_id: int
    wishes: list[Wish]
    properties: Mapping[str, Any] = NONE


class Unsubscribe(NamedTuple):
    """UNSUBSCRIBE."""

    packet_id: int
    filters: list[str]
    properties: Mapping[str, Any] = NONE


class Ping(NamedTuple):
    """PINGREQ."""


class Disconnect(NamedTuple):
    """DISCONNECT."""

    reason: int = 0
    properties: Mapping[str, Any] = NONE


class Auth(NamedTuple):
    """AUTH."""

    reason: int = 0
    properties: Mapping[str, Any] = NONE


Packet: TypeAlias = Connect | Publish | Ack | Subscribe | Unsubscribe | Ping | Disconnect | Auth


def decode_packet(first: int, body: bytes, version: int) -> Packet:
    """What a client may send after CONNECT. Raises MqttError."""
    if first >> 4 == PacketType.PUBLISH:
        return decode_publish(first, body, version)
    if first < 0x10:
        raise malformed("packets of type 0 are reserved")
    kind = PacketType(first >> 4)
    if first & 0x0F != (2 if kind in _FLAGS_TWO else 0):
        raise malformed(f"flags {first & 0x0F:#x} of {kind.name}")
    reader = Reader(body)
    packet: Packet
    match kind:
        case PacketType.PUBACK | PacketType.PUBREC | PacketType.PUBREL | PacketType.PUBCOMP:
            packet = _decode_ack(kind, reader, version)
        case PacketType.SUBSCRIBE:
            packet = _decode_subscribe(reader, version)
        case PacketType.UNSUBSCRIBE:
            packet = _decode_unsubscribe(reader, version)
        case PacketType.PINGREQ:
            packet = Ping()
        case PacketType.DISCONNECT:
            packet = Disconnect(*_decode_reason(reader, version, Holder.DISCONNECT))
        case PacketType.AUTH if version == V5:
            packet = Auth(*_decode_reason(reader, version, Holder.AUTH))
        case PacketType.CONNECT:
            raise protocol_error("CONNECT is said once")
        case _:
            raise protocol_error(f"clients do not send {kind.name}")
    reader.end()
    return packet


def decode_publish(first: int, body: bytes, version: int) -> Publish:
    """PUBLISH, which comes most often."""
    qos = first >> 1 & 3
    dup = bool(first & 8)
    if qos == 3:
        raise malformed("QoS 3")
    if dup and not qos:
        raise malformed("DUP at QoS 0")
    end = 2 + int.from_bytes(body[:2], "big")
    if len(body) < end + (2 if qos else 0) or len(body) < 2:
        raise malformed("a packet ends inside a field")
    topic = decode_text(body[2:end])
    packet_id = 0
    if qos:
        packet_id = int.from_bytes(body[end : end + 2], "big")
        end += 2
        if not packet_id:
            raise protocol_error("packet identifier 0")
    properties = NONE
    if version == V5:
        if body[end : end + 1] == b"\0":
            end += 1
        else:
            reader = Reader(body[end:])
            properties = decode_properties(reader, Holder.PUBLISH)
            end = len(body) - reader.left
    if "#" in topic or "+" in topic:
        raise MqttError(Reason.TOPIC_NAME_INVALID, "a topic name has wildcards")
    return Publish(topic, body[end:], qos, bool(first & 1), dup, packet_id, properties)


def decode_connect(first: int, body: bytes) -> Connect:
    """CONNECT. Raises MqttError; with UNSUPPORTED_PROTOCOL_VERSION where the version is not known."""
    if first != PacketType.CONNECT << 4:
        raise malformed("flags of CONNECT" if first >> 4 == PacketType.CONNECT else "CONNECT comes first")
    reader = Reader(body)
    name = reader.text()
    level = reader.byte()
    version = level & ~BRIDGE
    if name not in ("MQTT", "MQIsdp"):
        raise malformed("the name of another protocol")
    if NAMES.get(version) != name or (level & BRIDGE and version == V5):
        raise MqttError(Reason.UNSUPPORTED_PROTOCOL_VERSION, f"{name} of level {level}")
    flags = reader.byte()
    if flags & 1:
        raise malformed("the reserved flag of CONNECT")
    has_will, will_qos, will_retain = bool(flags & 4), flags >> 3 & 3, bool(flags & 0x20)
    if will_qos == 3 or (not has_will and (will_qos or will_retain)):
        raise malformed("flags of a will")
    has_password, has_user = bool(flags & 0x40), bool(flags & 0x80)
    if has_password and not has_user and version != V5:
        raise malformed("a password without a user name")
    keep_alive_s = reader.two()
    properties = decode_properties(reader, Holder.CONNECT) if version == V5 else NONE
    client_id = reader.text()
    will = None
    if has_will:
        will_properties = decode_properties(reader, Holder.WILL) if version == V5 else NONE
        will = Will(reader.text(), reader.binary(), will_qos, will_retain, will_properties)
    user = reader.text() if has_user else None
    password = reader.binary() if has_password else None
    reader.end()
    return Connect(
        version, bool(level & BRIDGE), client_id, bool(flags & 2), keep_alive_s, user, password, will, properties
    )


def _packet_id(reader: Reader) -> int:
    packet_id = reader.two()
    if not packet_id:
        raise protocol_error("packet identifier 0")
    return packet_id


def _decode_ack(kind: PacketType, reader: Reader, version: int) -> Ack:
    packet_id = _packet_id(reader)
    return Ack(kind, packet_id, *_decode_reason(reader, version, Holder.ACK))


def _decode_reason(reader: Reader, version: int, holder: Holder) -> tuple[int, Mapping[str, Any]]:
    """Both may be left out: then all is well."""
    if version != V5 or not reader.left:
        return 0, NONE
    reason = reader.byte()
    return reason, decode_properties(reader, holder) if reader.left else NONE


def _decode_subscribe(reader: Reader, version: int) -> Subscribe:
    packet_id = _packet_id(reader)
    properties = decode_properties(reader, Holder.SUBSCRIBE) if version == V5 else NONE
    wishes: list[Wish] = []
    while reader.left:
        name, options = reader.text(), reader.byte()
        qos = options & 3
        if qos == 3 or options & (0xC0 if version == V5 else 0xFC):
            raise malformed(f"options {options:#x} of a subscription")
        handling = options >> 4 & 3
        if handling == 3:
            raise protocol_error("retain handling 3")
        wishes.append(Wish(name, qos, bool(options & 4), bool(options & 8), handling))
    if not wishes:
        raise protocol_error("SUBSCRIBE without a filter")
    return Subscribe(packet_id, wishes, properties)


def _decode_unsubscribe(reader: Reader, version: int) -> Unsubscribe:
    packet_id = _packet_id(reader)
    properties = decode_properties(reader, Holder.UNSUBSCRIBE) if version == V5 else NONE
    filters: list[str] = []
    while reader.left:
        filters.append(reader.text())
    if not filters:
        raise protocol_error("UNSUBSCRIBE without a filter")
    return Unsubscribe(packet_id, filters, properties)
