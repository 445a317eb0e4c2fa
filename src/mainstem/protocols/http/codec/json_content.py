"""JSON content: taken strictly, with a pointer to what cannot be; given as values or as problems (RFC 9457)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mainstem.protocols.http.errors import (
    TYPE_PREFIX,
    HttpError,
    InvalidContent,
    InvalidParameter,
    UnsupportedMediaType,
    escape_pointer,
)
from mainstem.wire.http.messages import JSON, PROBLEM, Request, Response

_PLACE = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_FIELD = re.compile(r"(?:unknown|missing required) field `(.*)`", re.DOTALL)


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong, for programs and their readers (RFC 9457)."""

    type: str
    """Stable: compare this."""
    title: str
    status: int
    detail: str = ""
    pointer: str | None = None
    """Where in the content, as a JSON pointer."""
    parameter: str | None = None
    """Which parameter of the path or query."""
    key: str | None = None
    """Which configuration."""


def encode_json(status: int, value: object, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """A value, as of now."""
    return Response(status, msgspec.json.encode(value) + b"\n", headers=(("cache-control", "no-store"), *headers))


def encode_error(error: HttpError) -> Response:
    """An error as every client can read it."""
    problem = Problem(TYPE_PREFIX + error.name, error.title(), error.status, str(error), **error.members())
    return Response(error.status, msgspec.json.encode(problem) + b"\n", PROBLEM, tuple(error.headers()))


def media_type_of(request: Request) -> str:
    """What the content is said to be, without parameters; empty where nothing is said."""
    return (request.header(b"content-type") or "").partition(";")[0].strip().lower()


def decode_json(data: bytes, form: Any, pointer: str = "") -> Any:
    """JSON as a value of the form; `pointer` says where in the content it stands. Raises InvalidContent."""
    try:
        return msgspec.json.decode(data, type=form)
    except msgspec.ValidationError as error:
        detail, steps = _locate(str(error))
        raise InvalidContent(detail, pointer + "".join(f"/{escape_pointer(step)}" for step in steps)) from None
    except RecursionError:
        raise InvalidContent("the content is nested too deeply", pointer) from None
    except ValueError as error:  # DecodeError, UnicodeDecodeError
        raise InvalidContent(f"the content is not JSON: {error}", pointer) from None


def decode_content(request: Request, form: type[msgspec.Struct]) -> Any:
    """The content as a value of the form. Raises UnsupportedMediaType, InvalidContent."""
    media_type = media_type_of(request)
    if media_type != JSON:
        raise UnsupportedMediaType(f"the content must be {JSON}, and is {media_type or 'of no stated type'}")
    return decode_json(request.body, form)


def convert_parameters(given: dict[str, str], form: type[msgspec.Struct]) -> Any:
    """Text from a path or query as a value of the form. Raises InvalidParameter."""
    try:
        return msgspec.convert(given, form, strict=False)
    except msgspec.ValidationError as error:
        detail, steps = _locate(str(error))
        raise InvalidParameter(detail, steps[-1] if steps else "") from None


def _locate(message: str) -> tuple[str, list[str]]:
    """Split what msgspec says into the fact and the way to it."""
    found = _PLACE.fullmatch(message)
    detail, path = found.groups() if found else (message, "")
    way = [name or index for name, index in _STEP.findall(path)]
    if field := _FIELD.search(detail):
        way.append(field.group(1))
    return detail, way
