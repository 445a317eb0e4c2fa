"""Typed fields <-> the plain values that routes and records deal with."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import msgspec

from mainstem.protocols.amqp.codec.field_table import Field, Table, text

TIMESTAMP_S_MAX = 253_402_300_799
"""The last second of the year 9999: later ones stay numbers."""


def plain(field: Field) -> Any:
    """Text where a string is UTF-8; bytes where it is not."""
    kind, value = field
    if kind == "longstr":
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if kind == "table":
        return plain_table(value)
    if kind == "array":
        return [plain(entry) for entry in value]
    if kind == "timestamp":
        return datetime.datetime.fromtimestamp(value, datetime.UTC) if value <= TIMESTAMP_S_MAX else value
    if kind == "decimal":
        scale, digits = value
        return digits / 10**scale
    return value


def plain_table(table: Mapping[str, Field]) -> dict[str, Any]:
    """A whole table."""
    return {name if name.isascii() else _plain_name(name): plain(field) for name, field in table.items()}


def _plain_name(name: str) -> str:
    """A name that can be stored as text: bytes that are not UTF-8 are written as `\\xNN`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def field_of(value: object) -> Field:
    """The type that RabbitMQ would give a plain value."""
    match value:
        case None:
            return Field("void", None)
        case bool():
            return Field("bool", value)
        case int():
            return Field("long", value)
        case float():
            return Field("double", value)
        case str():
            return text(value)
        case bytes():
            return Field("longstr", value)
        case datetime.datetime():
            return Field("timestamp", int(value.timestamp()))
        case list() | tuple():
            return Field("array", [field_of(entry) for entry in value])
        case Mapping():
            return Field("table", table_of(value))
        case _:
            raise TypeError(type(value))


def table_of(values: Mapping[str, object]) -> Table:
    """A whole table."""
    return {name: field_of(value) for name, value in values.items()}


def readable(field: Field) -> bytes | None:
    """A header's value as a consumer of the topic reads it: text, bytes as they are, JSON for what is nested."""
    kind, value = field
    if kind in ("longstr", "binary"):
        content: bytes = value
        return content
    if kind == "void":
        return None
    if kind == "bool":
        return b"true" if value else b"false"
    if kind in ("table", "array", "decimal"):
        return msgspec.json.encode(_jsonable(plain(field)))
    return str(value).encode()


def _jsonable(value: Any) -> Any:
    """JSON has no bytes; they are shown as Latin-1 text."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list):
        return [_jsonable(entry) for entry in value]
    if isinstance(value, dict):
        return {name.encode("utf-8", "replace").decode(): _jsonable(entry) for name, entry in value.items()}
    return value
