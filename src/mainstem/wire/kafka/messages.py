"""Requests and responses with their headers, without the four bytes of size before them.

A request header has version 1, or 2 (a tag section more) where the request is flexible. A response header has version 0,
or 1 where it is flexible, with one exception: ApiVersions is answered with version 0 always, because a client must be able
to read the answer before it knows what the broker speaks (KIP-511).
"""

import struct
from typing import Any, NamedTuple

from mainstem.wire.errors import TrailingBytes, UnknownMessage
from mainstem.wire.kafka.apis import APIS, api_of
from mainstem.wire.kafka.codec import decode_message, encode_message
from mainstem.wire.kafka.reader import ELEMENTS_MAX, INT32, Buffer, Reader
from mainstem.wire.kafka.schema import Api

API_VERSIONS_KEY = 18
NO_TAGS = b"\0"

_REQUEST_START = struct.Struct(">hhi")
_STRING_LENGTH = struct.Struct(">h")


class RequestHeader(NamedTuple):
    """What precedes every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int
    """Where the body starts. Of an API or version that is not known, only where the client id ends."""


def decode_request_header(buffer: Buffer) -> RequestHeader:
    """Reads the header even of a request that is not known, so that it can be answered."""
    reader = Reader(buffer)
    api_key, api_version, correlation_id = reader.unpack(_REQUEST_START)
    length = reader.length16()
    # the client id keeps its old form in header version 2, so that this much can be read without knowing the version
    client_id = None if length < 0 else reader.text(length)
    api = APIS.get(api_key)
    if api is not None and api_version in api.versions and api.request.is_flexible(api_version):
        _skip_tags(reader)
    return RequestHeader(api_key, api_version, correlation_id, client_id, reader.position)


def decode_request(buffer: Buffer, elements_max: int = ELEMENTS_MAX) -> tuple[RequestHeader, Any]:
    """Header and body; raises `UnknownMessage` for an API or version that is not known.

    Bytes after the body are ignored, as Kafka ignores them.
    """
    header = decode_request_header(buffer)
    api = api_of(header.api_key)
    body, _ = decode_message(api.request, header.api_version, buffer, header.body_at, elements_max)
    return header, body


def encode_request(
    api_key: int, version: int, body: Any, *, correlation_id: int, client_id: str | None = None
) -> bytearray:
    """Header and body, the body as a struct of `api_of(api_key).request.type` or as a dict."""
    api = _served(api_key, version)
    out = bytearray(_REQUEST_START.pack(api_key, version, correlation_id))
    if client_id is None:
        out += _STRING_LENGTH.pack(-1)
    else:
        text = client_id.encode()
        out += _STRING_LENGTH.pack(len(text)) + text
    if api.request.is_flexible(version):
        out += NO_TAGS
    encode_message(out, api.request, version, body)
    return out


def encode_response(api_key: int, version: int, body: Any, *, correlation_id: int) -> bytearray:
    """Header and body, the body as a struct of `api_of(api_key).response.type` or as a dict."""
    api = _served(api_key, version)
    out = bytearray(INT32.pack(correlation_id))
    if _has_response_tags(api, version):
        out += NO_TAGS
    encode_message(out, api.response, version, body)
    return out


def decode_response(api_key: int, version: int, buffer: Buffer, elements_max: int = ELEMENTS_MAX) -> tuple[int, Any]:
    """Correlation id and body of the response to a request of this API and version."""
    api = _served(api_key, version)
    reader = Reader(buffer)
    correlation_id: int = reader.unpack(INT32)[0]
    if _has_response_tags(api, version):
        _skip_tags(reader)
    body, end = decode_message(api.response, version, buffer, reader.position, elements_max)
    if end != len(buffer):
        raise TrailingBytes(f"{len(buffer) - end} bytes follow the response")
    return correlation_id, body


def _served(api_key: int, version: int) -> Api:
    api = api_of(api_key)
    if version not in api.versions:
        raise UnknownMessage(f"{api.name} has no version {version}")
    return api


def _has_response_tags(api: Api, version: int) -> bool:
    return api.key != API_VERSIONS_KEY and api.response.is_flexible(version)


def _skip_tags(reader: Reader) -> None:
    for _ in range(reader.unsigned_varint()):
        reader.unsigned_varint()
        reader.take(reader.unsigned_varint())
