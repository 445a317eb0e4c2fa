"""The property list of a message: flags, then the values of those that are set (AMQP 0-9-1, 4.2.6.1)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

from mainstem.protocols.amqp.codec.field_table import Table, decode_table, encode_table
from mainstem.protocols.amqp.errors import fail

Properties: TypeAlias = dict[str, Any]
"""By name, only those that are set: texts, numbers, and `headers` as a table."""

SHORT_STRING, TABLE, OCTET, TIMESTAMP = range(4)

LAYOUT: tuple[tuple[int, str, int], ...] = (
    (1 << 15, "content_type", SHORT_STRING),
    (1 << 14, "content_encoding", SHORT_STRING),
    (1 << 13, "headers", TABLE),
    (1 << 12, "delivery_mode", OCTET),
    (1 << 11, "priority", OCTET),
    (1 << 10, "correlation_id", SHORT_STRING),
    (1 << 9, "reply_to", SHORT_STRING),
    (1 << 8, "expiration", SHORT_STRING),
    (1 << 7, "message_id", SHORT_STRING),
    (1 << 6, "timestamp", TIMESTAMP),
    (1 << 5, "type", SHORT_STRING),
    (1 << 4, "user_id", SHORT_STRING),
    (1 << 3, "app_id", SHORT_STRING),
    (1 << 2, "cluster_id", SHORT_STRING),
)
UNDEFINED_FLAGS = 0b11
"""No property stands behind them; the lowest would announce further flags, of which there are none."""
NONE_SET = b"\0\0"

_FLAGS = struct.Struct(">H")
_LENGTH = struct.Struct(">I")
_TIMESTAMP = struct.Struct(">Q")


def decode_properties(encoded: bytes) -> Properties:
    """All that are set. Texts that are not UTF-8 keep their bytes as surrogates."""
    properties: Properties = {}
    end = len(encoded)
    try:
        (flags,) = _FLAGS.unpack_from(encoded)
        if flags & UNDEFINED_FLAGS:
            fail(501, "unexpected property flags")
        position = 2
        for flag, name, kind in LAYOUT:
            if not flags & flag:
                continue
            if kind == SHORT_STRING:
                start = position + 1
                position = start + encoded[position]
                properties[name] = encoded[start:position].decode("utf-8", "surrogateescape")
            elif kind == OCTET:
                properties[name] = encoded[position]
                position += 1
            elif kind == TIMESTAMP:
                (properties[name],) = _TIMESTAMP.unpack_from(encoded, position)
                position += 8
            else:
                (length,) = _LENGTH.unpack_from(encoded, position)
                start = position + 4
                position = start + length
                if position > end:
                    fail(502, "the headers are longer than the property list")
                properties[name] = decode_table(encoded, start, position)
    except (IndexError, struct.error):
        fail(502, "the property list ends inside a property")
    if position != end:
        fail(502, "the property list does not end with its last property")
    return properties


def encode_properties(properties: Mapping[str, Any]) -> bytes:
    """The inverse."""
    flags = 0
    out = bytearray(2)
    for flag, name, kind in LAYOUT:
        value = properties.get(name)
        if value is None:
            continue
        flags |= flag
        if kind == SHORT_STRING:
            text = value.encode("utf-8", "surrogateescape")
            out.append(len(text))
            out += text
        elif kind == OCTET:
            out.append(value)
        elif kind == TIMESTAMP:
            out += _TIMESTAMP.pack(value)
        else:
            table: Table = value
            out += encode_table(table)
    _FLAGS.pack_into(out, 0, flags)
    return bytes(out)
