"""Fields of what was sent, of the types that they must have. All raise BadRequest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainstem.protocols.management.errors import BadRequest


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
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 20:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(f"{name} must be an integer")
    return value


def table(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object; PHP's tools send an empty list for an empty one."""
    value = body.get(name)
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{name} must be an object")
    return value


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
