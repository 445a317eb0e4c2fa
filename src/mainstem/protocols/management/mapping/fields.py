"""Fields of what was sent, of the types that they must have. All raise BadRequest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainstem.protocols.management.errors import BadRequest

NESTED_LEVELS_MAX = 32
"""Of tables and lists in one table: as many as AMQP clients may declare."""
NAME_BYTES_MAX = 255
"""Of queues, exchanges, routing keys, and of names in tables: AMQP's short strings."""
INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 63) - 1
"""What AMQP and the log hold."""


def text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text."""
    value = body.get(name, default)
    if value is None:
        raise BadRequest(f"key_missing: {name}")
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be a string")
    return value


def flag(body: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """True or false; rabbitmqadmin sends them as texts."""
    value = body.get(name, default)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise BadRequest(f"{name} must be a boolean")
    return value


def number(body: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A whole number; rabbitmqadmin sends them as texts."""
    value = body.get(name, default)
    if value is None:
        raise BadRequest(f"key_missing: {name}")
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) <= len(str(INTEGER_MIN)):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(f"{name} must be an integer")
    _check_value(name, value, 0)
    return value


def table(body: Mapping[str, Any], name: str, levels: int = NESTED_LEVELS_MAX) -> dict[str, Any]:
    """An object, nested no deeper than allowed; PHP's tools send an empty list for an empty object."""
    value = body.get(name)
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{name} must be an object")
    _check_value(name, value, levels + 1)
    return value


def value(body: Mapping[str, Any], name: str) -> Any:
    """Anything that can be kept."""
    if name not in body:
        raise BadRequest(f"key_missing: {name}")
    _check_value(name, body[name], NESTED_LEVELS_MAX)
    return body[name]


def short(what: str, name: str) -> str:
    """A name or a routing key."""
    size = len(name.encode())
    if size > NAME_BYTES_MAX:
        raise BadRequest(f"{what} should be less than {NAME_BYTES_MAX} bytes, actually was {size}")
    return name


def _check_value(what: str, value: Any, levels: int) -> None:
    """Whether AMQP and the log can hold it. Goes without recursion, whatever was sent."""
    waiting = [(value, levels)]
    while waiting:
        value, levels = waiting.pop()
        if isinstance(value, int) and not INTEGER_MIN <= value <= INTEGER_MAX:
            raise BadRequest(f"{what} holds an integer of more than 64 bits")
        if isinstance(value, dict | list):
            if not levels:
                raise BadRequest(f"{what} is nested more than {NESTED_LEVELS_MAX} levels deep")
            entries = value
            if isinstance(value, dict):
                for name in value:
                    short(f"a name in {what}", name)
                entries = list(value.values())
            waiting += [(entry, levels - 1) for entry in entries]


def rows(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects."""
    value = body.get(name) or []
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise BadRequest(f"{name} must be a list of objects")
    return value


def tags(body: Mapping[str, Any], name: str = "tags") -> tuple[str, ...]:
    """A list of texts, or one text with commas."""
    value = body.get(name, "")
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise BadRequest(f"{name} must be a list of strings")
    return tuple(tag.strip() for tag in value if tag.strip())
