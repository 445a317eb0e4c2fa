"""Messages as basic.deliver, many at once into one buffer. Compiled where it can be.

All of a delivery but its tag and its body is the same for messages with the same headers and of the same size: so it is made
once and kept as two pieces, around the tag and before the body.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from mainstem.broker.queues import Message

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import grow, put_bytes, put_i64

Template: TypeAlias = tuple[bytes, bytes, bool]
"""What stands before the tag, and behind it before the body; and whether it is so for every message like this one."""

TEMPLATES_MAX = 256
_pack_tag = struct.Struct(">Q").pack
_END = 0xCE


class DeliveryFrames:
    """The frames of one consumer's deliveries."""

    __slots__ = ("_deliveries", "_encode", "_head", "_headers", "_make", "_size", "_tail", "_templates")

    def __init__(self, make: Callable[[Message], Template | None], encode: Callable[[Message, int], bytes]) -> None:
        self._make = make
        """Makes a template; None: this message has none."""
        self._encode = encode
        """Makes the frames of a message without a template."""
        self._templates: dict[tuple[bytes, int, int], Template] = {}
        self._headers: bytes | None = None
        """Of the last message, whose template is at hand."""
        self._deliveries = 0
        self._size = 0
        self._head = b""
        self._tail = b""

    def encode(self, messages: list[Message], tag: int) -> bytes | bytearray:
        """The deliveries of these messages, with this tag and those that follow it."""
        return self._fill(messages, tag) if cython.compiled else self._join(messages, tag)

    def _join(self, messages: list[Message], tag: int) -> bytes:
        parts: list[bytes | memoryview] = []
        for message in messages:
            value = message.value
            if not self._find(message, len(value)):
                parts.append(self._encode(message, tag))
            else:
                parts += (self._head, _pack_tag(tag), self._tail, value, b"\xce")
            tag += 1
        return b"".join(parts)

    def _fill(self, messages: list[Message], tag: int) -> bytearray:
        out = bytearray()
        at = 0
        room = 0
        left = len(messages)
        for message in messages:
            value = message.value if type(message.value) is bytes else bytes(message.value)
            size = len(value)
            if not self._find(message, size):
                encoded = self._encode(message, tag)
                if room - at < len(encoded):
                    grow(out, len(encoded))
                    room += len(encoded)
                data = out
                at = put_bytes(data, at, encoded, len(encoded))
            else:
                head, tail = self._head, self._tail
                need = len(head) + 8 + len(tail) + size + 1
                if room - at < need:
                    grow(out, need * left)
                    room += need * left
                data = out
                at = put_bytes(data, at, head, len(head))
                put_i64(data, at, tag)
                at = put_bytes(data, at + 8, tail, len(tail))
                at = put_bytes(data, at, value, size)
                data[at] = _END
                at += 1
            tag += 1
            left -= 1
        del out[at:]
        return out

    def _find(self, message: Message, size: int) -> bool:
        """Have the template of a message like this at hand; answers whether it has one."""
        if message.headers is self._headers and size == self._size and message.deliveries == self._deliveries:
            return True
        known = (message.headers, message.deliveries, size)
        template = self._templates.get(known)
        if template is None:
            template = self._make(message)
            if template is None:
                self._headers = None
                return False
            if template[2]:
                if len(self._templates) >= TEMPLATES_MAX:
                    self._templates.clear()
                self._templates[known] = template
        self._headers = message.headers if template[2] else None
        self._deliveries = message.deliveries
        self._size = size
        self._head, self._tail, _ = template
        return True
