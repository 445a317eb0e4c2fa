"""Field tables: names with typed values (AMQP 0-9-1, 4.2.5, with the types that RabbitMQ reads and writes).

A value keeps its type, because a table must be given back as it came, and because two declarations are compared by both.
Strings are bytes here: AMQP says nothing of their encoding. Names are text; what is not UTF-8 in them survives as surrogates.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from mainstem.protocols.amqp.errors import AmqpError, fail

DEPTH_MAX = 32
"""Tables in tables; deeper ones are refused before they exhaust the stack."""


class Field(NamedTuple):
    """A value with its type, named as RabbitMQ names it in its messages."""

    type: str
    value: Any


Table: TypeAlias = dict[str, Field]

_FIXED: dict[int, tuple[str, struct.Struct]] = {
    ord(letter): (name, struct.Struct(f">{form}"))
    for letter, name, form in (
        ("b", "byte", "b"),
        ("B", "unsignedbyte", "B"),
        ("s", "short", "h"),
        ("u", "unsignedshort", "H"),
        ("I", "signedint", "i"),
        ("i", "unsignedint", "I"),
        ("l", "long", "q"),
        ("L", "long", "q"),  # The specification and RabbitMQ differ; RabbitMQ reads both alike.
        ("f", "float", "f"),
        ("d", "double", "d"),
        ("T", "timestamp", "Q"),
        ("D", "decimal", "BI"),
    )
}
_LENGTH = struct.Struct(">I")
_LONG_STRING, _BYTES, _TABLE, _ARRAY, _BOOLEAN, _VOID = b"SxFAtV"

FIXED_SIZES = {letter: form.size for letter, (_, form) in _FIXED.items()} | {_BOOLEAN: 1, _VOID: 0}
"""Bytes of a value, by its letter, as far as they are always the same."""
LETTERS = {name: letter for letter, (name, _) in reversed(_FIXED.items())} | {
    "longstr": _LONG_STRING,
    "binary": _BYTES,
    "table": _TABLE,
    "array": _ARRAY,
    "bool": _BOOLEAN,
    "void": _VOID,
}
"""The byte that stands for a type."""
INTEGER_TYPES = frozenset({"byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint"})


def decode_table(buffer: bytes, start: int, end: int, depth: int = 0) -> Table:
    """The table whose content lies between the two positions. Of a name that comes twice the first counts."""
    if depth > DEPTH_MAX:
        fail(502, "a field table is nested too deeply")
    table: Table = {}
    position = start
    while position < end:
        name_end = position + 1 + buffer[position]
        if name_end >= end:
            fail(502, "a field table ends inside an entry")
        name = buffer[position + 1 : name_end].decode("utf-8", "surrogateescape")
        field, position = decode_field(buffer, name_end, end, depth)
        table.setdefault(name, field)
    return table


def decode_field(buffer: bytes, position: int, end: int, depth: int = 0) -> tuple[Field, int]:
    """The value at this position, which ends before that one; and where it ends."""
    letter = buffer[position]
    position += 1
    fixed = _FIXED.get(letter)
    if fixed is not None:
        name, form = fixed
        next_position = position + form.size
        if next_position > end:
            fail(502, "a field table ends inside a value")
        values = form.unpack_from(buffer, position)
        return Field(name, values if name == "decimal" else values[0]), next_position
    if letter == _BOOLEAN:
        if position >= end:
            fail(502, "a field table ends inside a value")
        return Field("bool", buffer[position] != 0), position + 1
    if letter == _VOID:
        return Field("void", None), position
    if letter not in _SIZED:
        fail(502, f"unknown field type {letter}")
    if position + 4 > end:
        fail(502, "a field table ends inside a value")
    (length,) = _LENGTH.unpack_from(buffer, position)
    position += 4
    next_position = position + length
    if next_position > end:
        fail(502, "a field table ends inside a value")
    return _SIZED[letter](buffer, position, next_position, depth + 1), next_position


def _decode_array(buffer: bytes, start: int, end: int, depth: int) -> Field:
    if depth > DEPTH_MAX:
        fail(502, "a field table is nested too deeply")
    values = []
    position = start
    while position < end:
        field, position = decode_field(buffer, position, end, depth)
        values.append(field)
    return Field("array", values)


_SIZED: dict[int, Callable[[bytes, int, int, int], Field]] = {
    _LONG_STRING: lambda buffer, start, end, _: Field("longstr", buffer[start:end]),
    _BYTES: lambda buffer, start, end, _: Field("binary", buffer[start:end]),
    _TABLE: lambda buffer, start, end, depth: Field("table", decode_table(buffer, start, end, depth)),
    _ARRAY: _decode_array,
}


def decode_stored_table(encoded: bytes) -> Table:
    """A table with its length in front, as it was stored; an entry that is nested too deeply reads as void.

    Earlier versions stored such entries without a check, and what is stored must stay readable.
    """
    table: Table = {}
    position = 4
    while position < len(encoded):
        name_end = position + 1 + encoded[position]
        name = encoded[position + 1 : name_end].decode("utf-8", "surrogateescape")
        try:
            table[name], position = decode_field(encoded, name_end, len(encoded))
        except AmqpError:
            (length,) = _LENGTH.unpack_from(encoded, name_end + 1)
            table[name], position = Field("void", None), name_end + 5 + length
    return table


def encode_table(table: Mapping[str, Field]) -> bytes:
    """With its length in front."""
    out = bytearray(4)
    _encode_entries(out, table)
    _LENGTH.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _encode_entries(out: bytearray, table: Mapping[str, Field]) -> None:
    for name, field in table.items():
        encoded = name.encode("utf-8", "surrogateescape")
        out.append(len(encoded))
        out += encoded
        _encode_field(out, field)


def _encode_field(out: bytearray, field: Field) -> None:
    kind, value = field
    letter = LETTERS[kind]
    out.append(letter)
    fixed = _FIXED.get(letter)
    if fixed is not None:
        out += fixed[1].pack(*value) if kind == "decimal" else fixed[1].pack(value)
    elif letter == _BOOLEAN:
        out.append(1 if value else 0)
    elif letter in (_LONG_STRING, _BYTES):
        out += _LENGTH.pack(len(value))
        out += value
    elif letter != _VOID:
        at = len(out)
        out += bytes(4)
        if letter == _TABLE:
            _encode_entries(out, value)
        else:
            for entry in value:
                _encode_field(out, entry)
        _LENGTH.pack_into(out, at, len(out) - at - 4)


def text(value: str) -> Field:
    """A long string."""
    return Field("longstr", value.encode("utf-8", "surrogateescape"))
