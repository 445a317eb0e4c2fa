"""JSON content. What AMQP allows in values and JSON does not have is shown as RabbitMQ shows it, or close to it.

Encoding never fails: one value that cannot be shown must not hide all the others in a list.
"""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import msgspec

from mainstem.protocols.management.errors import BadRequest, ManagementError
from mainstem.wire.http.errors import HttpError
from mainstem.wire.http.messages import Request, Response

SHOWN_LEVELS_MAX = 64
"""Of a whole answer. What is declared today has fewer; older data directories may hold more."""
CUT = "..."
"""Shown in place of what is nested deeper."""
NOT_UTF8 = "Not UTF-8, base64 is: "
INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 64) - 1
"""What the encoder writes by itself."""


def _shown(value: Any, levels: int) -> Any:
    """A value that the encoder takes."""
    match value:
        case str():
            return value if value.isascii() else _shown_text(value)
        case None | bool() | float():
            return value
        case int():
            return value if INTEGER_MIN <= value <= INTEGER_MAX else msgspec.Raw(str(value).encode())
        case dict() | list() | tuple() if not levels:
            return CUT
        case dict():
            return {_shown_text(str(name)): _shown(entry, levels - 1) for name, entry in value.items()}
        case list() | tuple():
            return [_shown(entry, levels - 1) for entry in value]
        case bytes() | bytearray() | memoryview():
            return _shown_bytes(bytes(value))
        case datetime():
            return int(value.timestamp())
        case _:
            return str(value)


def _shown_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return NOT_UTF8 + base64.b64encode(value).decode()


def _shown_text(value: str) -> str:
    """Names keep bytes that are not UTF-8 as surrogates."""
    try:
        return _shown_bytes(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace").decode()


def encode_json(status: int, value: object, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """A value, as of now."""
    body = msgspec.json.encode(_shown(value, SHOWN_LEVELS_MAX))
    return Response(status, body, headers=(("cache-control", "no-cache"), ("vary", "accept"), *headers))


def encode_error(error: ManagementError) -> Response:
    """An error as RabbitMQ's tools read it."""
    return encode_json(error.status, {"error": error.error, "reason": str(error)}, error.headers())


def encode_refusal(error: HttpError) -> Response:
    """Of bytes that are no request."""
    return encode_json(error.status, {"error": error.name.replace("-", "_"), "reason": str(error)})


def decode_body(request: Request) -> Any:
    """The content, an object; empty is empty. Raises BadRequest."""
    if not request.body.strip():
        return {}
    try:
        value = msgspec.json.decode(request.body)
    except RecursionError:
        raise BadRequest("not_json") from None
    except ValueError:
        raise BadRequest("not_json") from None
    if not isinstance(value, dict | list):
        raise BadRequest("not_json")
    return value
