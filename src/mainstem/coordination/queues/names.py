"""Queue names as topic names, reversibly.

A topic's name has few characters and 249 of them at most; a queue's may be any text. What is a topic's name already stays;
anything else is written as `queue.` and the name, in which every byte but letters, digits, `_` and `-` is `.` and two hex digits.
"""

from __future__ import annotations

import re

from mainstem.coordination.catalog.catalog import TOPIC_NAME_CHARACTERS_MAX

PREFIX = "queue."
_PLAIN = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_ESCAPED = re.compile(r"\.([0-9A-F]{2})|[a-zA-Z0-9_-]")


def topic_name_of(queue: str) -> str | None:
    """The topic's name; None if it would be too long."""
    if _PLAIN.fullmatch(queue) and queue not in {".", ".."} and not queue.startswith(PREFIX):
        return queue
    escaped = "".join(
        chr(byte) if byte in _KEPT else f".{byte:02X}" for byte in queue.encode("utf-8", "surrogateescape")
    )
    name = PREFIX + escaped
    return name if len(name) <= TOPIC_NAME_CHARACTERS_MAX else None


def queue_name_of(topic: str) -> str:
    """The queue's name again."""
    if not topic.startswith(PREFIX):
        return topic
    out = bytearray()
    for match in _ESCAPED.finditer(topic, len(PREFIX)):
        out.append(int(match[1], 16) if match[1] else ord(match[0]))
    return out.decode("utf-8", "surrogateescape")
