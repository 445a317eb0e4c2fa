"""JSON of the registry's own media type."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstem.protocols.registry.errors import BadRequest, RegistryError, Unprocessable
from mainstem.wire.http.errors import HttpError
from mainstem.wire.http.messages import Request, Response

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


def encode_json(value: object, status: int = 200) -> Response:
    """A value."""
    return Response(status, msgspec.json.encode(value), MEDIA_TYPE)


def encode_error(error: RegistryError) -> Response:
    """A refusal, with the code that clients compare."""
    content = msgspec.json.encode({"error_code": error.code, "message": str(error)})
    return Response(error.status, content, MEDIA_TYPE, error.headers())


def encode_refusal(error: HttpError) -> Response:
    """What is wrong with a request, whatever it asks for."""
    content = msgspec.json.encode({"error_code": error.status, "message": str(error)})
    return Response(error.status, content, MEDIA_TYPE, tuple(error.headers()))


def decode_object(request: Request) -> dict[str, Any]:
    """The content. Raises BadRequest, Unprocessable."""
    try:
        value = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"the content is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unprocessable("the content is not an object")
    return value
