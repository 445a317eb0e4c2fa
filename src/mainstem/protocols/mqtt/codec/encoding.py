"""Control packets as bytes: what the broker says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainstem.protocols.mqtt.codec.fields import encode_text, encode_varint
from mainstem.protocols.mqtt.codec.packets import V5, PacketType
from mainstem.protocols.mqtt.codec.properties import NONE, encode_properties

PINGRESP = bytes((PacketType.PINGRESP << 4, 0))
_FLAGS = {PacketType.PUBREL: 2}


def encode_packet(first: int, body: bytes) -> bytes:
    """With its first byte and its length."""
    return bytes((first,)) + encode_varint(len(body)) + body


def encode_connack(version: int, is_present: bool, code: int, properties: Mapping[str, Any] = NONE) -> bytes:
    """CONNACK; `code` is a return code or a reason code, as the version has it."""
    body = bytes((is_present, code)) + (encode_properties(properties) if version == V5 else b"")
    return encode_packet(PacketType.CONNACK << 4, body)


def encode_ack(
    kind: PacketType, packet_id: int, version: int, reason: int = 0, properties: Mapping[str, Any] = NONE
) -> bytes:
    """PUBACK, PUBREC, PUBREL, PUBCOMP: in two bytes where nothing is to be said."""
    first = kind << 4 | _FLAGS.get(kind, 0)
    if version != V5 or not (reason or properties):
        return bytes((first, 2, packet_id >> 8, packet_id & 0xFF))
    body = packet_id.to_bytes(2, "big") + bytes((reason,))
    return encode_packet(first, body + encode_properties(properties) if properties else body)


def encode_suback(packet_id: int, version: int, codes: Sequence[int], properties: Mapping[str, Any] = NONE) -> bytes:
    """SUBACK."""
    head = packet_id.to_bytes(2, "big") + (encode_properties(properties) if version == V5 else b"")
    return encode_packet(PacketType.SUBACK << 4, head + bytes(codes))


def encode_unsuback(packet_id: int, version: int, codes: Sequence[int]) -> bytes:
    """UNSUBACK, which has codes since version 5."""
    head = packet_id.to_bytes(2, "big")
    return encode_packet(PacketType.UNSUBACK << 4, head + b"\0" + bytes(codes) if version == V5 else head)


def encode_disconnect(reason: int, properties: Mapping[str, Any] = NONE) -> bytes:
    """DISCONNECT of version 5: earlier versions have none that a server says."""
    body = b"" if not (reason or properties) else bytes((reason,)) + encode_properties(properties)
    return encode_packet(PacketType.DISCONNECT << 4, body)


def encode_auth(reason: int, properties: Mapping[str, Any]) -> bytes:
    """AUTH."""
    return encode_packet(PacketType.AUTH << 4, bytes((reason,)) + encode_properties(properties))


def encode_publish_head(topic: str, size: int, first: int, packet_id: int, properties: bytes) -> bytes:
    """All of PUBLISH but its payload, whose length is given; `properties` with their length, empty before version 5."""
    name = encode_text(topic)
    middle = packet_id.to_bytes(2, "big") if packet_id else b""
    return b"".join(
        (
            bytes((PacketType.PUBLISH << 4 | first,)),
            encode_varint(len(name) + len(middle) + len(properties) + size),
            name,
            middle,
            properties,
        )
    )
