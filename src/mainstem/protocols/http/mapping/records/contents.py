"""A record's value in JSON, by one rule both ways: as `value` where it is JSON, else as `text`, else as `base64`.

JSON is passed on as it stands, byte for byte, so that a record that is read and published again is the same record. What
would not come back as it was (line breaks, white space around it, a lone `null`) is shown as text. No value at all is null.
"""

from __future__ import annotations

import base64
import binascii

import msgspec
from msgspec import UNSET, UnsetType

from mainstem.protocols.http.errors import InvalidContent

_WHITE = b" \t\r\n"
NULL = msgspec.Raw(b"null")
_check = msgspec.json.Decoder().decode


def show_value(value: bytes | None) -> tuple[msgspec.Raw | UnsetType, str | UnsetType, str | UnsetType]:
    """As `value`, `text` and `base64`, of which one is set."""
    if value is None:
        return NULL, UNSET, UNSET
    if _is_plain_json(value):
        return msgspec.Raw(value), UNSET, UNSET
    try:
        return UNSET, value.decode(), UNSET
    except UnicodeDecodeError:
        return UNSET, UNSET, base64.b64encode(value).decode()


def _is_plain_json(value: bytes) -> bool:
    if not value or value[0] in _WHITE or value[-1] in _WHITE or b"\n" in value or b"\r" in value or value == b"null":
        return False
    try:
        _check(value)
    except (ValueError, RecursionError):
        return False
    return True


def read_value(value: msgspec.Raw | UnsetType, text: str | None, encoded: str | None, pointer: str) -> bytes | None:
    """The bytes. Raises InvalidContent."""
    given = b"null" if value is UNSET else bytes(value)
    is_json = given != b"null"
    if is_json + (text is not None) + (encoded is not None) > 1:
        raise InvalidContent("either value, text or base64", pointer)
    if text is not None:
        return text.encode()
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidContent("not base64", f"{pointer}/base64") from None
    return given if is_json else None
