"""Properties of messages as one text: name, \\x01, value, \\x02, and so on."""

from __future__ import annotations

from collections.abc import Mapping

NAME_END, VALUE_END = "\x01", "\x02"
PROPERTIES_BYTES_MAX = 32_767


def decode_properties(text: str) -> dict[str, str]:
    """What is no pair is passed over, as RocketMQ does."""
    found: dict[str, str] = {}
    for pair in text.split(VALUE_END):
        name, separator, value = pair.partition(NAME_END)
        if separator and name:
            found[name] = value
    return found


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """In their order; those that do not fit any more are left out."""
    out = bytearray()
    for name, value in properties.items():
        pair = f"{name}{NAME_END}{value}{VALUE_END}".encode()
        if len(out) + len(pair) <= PROPERTIES_BYTES_MAX:
            out += pair
    return bytes(out)


def can_show(text: str) -> bool:
    """Whether a name or value can be written among properties."""
    return NAME_END not in text and VALUE_END not in text
