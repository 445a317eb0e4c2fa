"""JSON content. Bytes that are no text, which AMQP allows in values, are shown with what cannot be read replaced."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from mainstem.protocols.management.errors import BadRequest, ManagementError
from mainstem.wire.http.errors import HttpError
from mainstem.wire.http.messages import Request, Response


def _plain(value: object) -> object:
    """Of values that JSON does not have."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    raise NotImplementedError(type(value))


def _clean(value: Any) -> Any:
    """Bytes and times as text, before the encoder would write them in base64 or ISO form."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() if not value.isascii() else value
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, dict):
        return {_clean(name): _clean(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(entry) for entry in value]
    return value


def encode_json(status: int, value: object, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """A value, as of now."""
    body = msgspec.json.encode(_clean(value), enc_hook=_plain)
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
