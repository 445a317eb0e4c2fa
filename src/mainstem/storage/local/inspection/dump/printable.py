"""Stored bytes for people and for programs: text where they are text, else hexadecimal, cut where that is asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import msgspec

Shown: TypeAlias = "str | Hex | Cut | None"
"""Bytes in a row: a string is the whole text."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPACES = str.maketrans("", "", "\n\r\t")


class Hex(msgspec.Struct, frozen=True):
    """Bytes that are not text."""

    hex: str


class Cut(msgspec.Struct, frozen=True):
    """The beginning of bytes, and how many they are."""

    beginning: str | Hex
    bytes: int


def show_bytes(data: bytes | None, width: int | None) -> Shown:
    """Bytes as a row holds them, at most `width` characters of them."""
    if data is None:
        return None
    # One character is four bytes at most: what is beyond that cannot be shown in any case.
    beginning = data if width is None else data[: width * 4]
    text = _as_text(beginning, whole=len(beginning) == len(data))
    if text is None:
        digits = beginning.hex() if width is None else beginning.hex()[: width & ~1]
        return Hex(digits) if len(digits) == 2 * len(data) else Cut(Hex(digits), len(data))
    if width is None or (len(text) <= width and len(beginning) == len(data)):
        return text
    return Cut(text[:width], len(data))


def _as_text(data: bytes, *, whole: bool) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        # Cutting may have gone through a character.
        if whole or error.end != len(data) or len(data) - error.start > 3:
            return None
        text = data[: error.start].decode()
    return text if text.translate(_SPACES).isprintable() else None


def write_bytes(shown: Shown) -> str:
    """Bytes in a line of text."""
    match shown:
        case None:
            return "null"
        case str():
            return msgspec.json.encode(shown).decode()
        case Hex():
            return f"0x{shown.hex}"
        case Cut():
            return f"{write_bytes(shown.beginning)}... ({shown.bytes} bytes)"


def write_time(time_ms: int) -> str:
    """A time in a line of text; records may claim any."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    if time_ms < 0:
        return "-" if time_ms == -1 else f"{time_ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
