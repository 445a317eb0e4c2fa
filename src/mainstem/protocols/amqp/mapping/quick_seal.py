"""The record headers of a message straight from its encoded properties, without a table in between. Compiled where it can be.

Of many messages each has properties of its own: an id, a time, headers. This is the short way for them; whatever is unusual
(a time to live, a user to be checked, further keys, a name that is no ASCII) answers None and goes the long way: `seal`.
"""

from __future__ import annotations

from binascii import b2a_base64

from mainstem.protocols.amqp.codec.field_table import DEPTH_MAX, FIXED_SIZES, decode_field
from mainstem.protocols.amqp.errors import AmqpError
from mainstem.protocols.amqp.mapping.values import readable

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import grow, i64_at, put_bytes, put_varint, u16_at, u32_at, varint_size

AVAILABLE = bool(cython.compiled)
"""As Python the long way is the shorter one."""
KNOWN_MAX, KNOWN_BYTES_MAX = 512, 64
"""Values that are no strings, and how they read: numbers, lists and tables that come again and again."""
HEADERS_MAX = 64
"""Each name is compared with those before it."""
_CONTENT_TYPE, _HEADERS, _DELIVERY_MODE, _PRIORITY, _REPLY_TO, _TIMESTAMP = (
    1 << 15,
    1 << 13,
    1 << 12,
    1 << 11,
    1 << 9,
    1 << 6,
)
_UNUSUAL = 1 << 8 | 1 << 4 | 0b11
"""Expiration, user id, and what does not exist."""
_NAMES: tuple[bytes, ...] = tuple(
    b"amqp." + name
    for name in (
        b"content-type", b"content-encoding", b"headers", b"delivery-mode", b"priority", b"correlation-id", b"reply-to",
        b"expiration", b"message-id", b"timestamp", b"type", b"user-id", b"app-id", b"cluster-id",
    )
)  # fmt: skip
_SPECIAL = (b"amqp", b"CC", b"BCC")
"""Names that mean something, besides those with a prefix of ours."""
_SPECIAL_BEGIN = b"amCB"
_UNDEFINED = 0b11
_OF_ANY_LENGTH, _UNKNOWN = -1, -2
_SIZES: list[int] = [
    _OF_ANY_LENGTH if chr(letter) in "SxFA" else FIXED_SIZES.get(letter, _UNKNOWN) for letter in range(256)
]
_DEPTH_MAX = DEPTH_MAX
_DIRECT_REPLY = b"amq.rabbitmq.reply-to"
_NULL = 1 << 31
"""A content that is not there, where a size is expected."""


class QuickSeal:
    """One pass over a property list. Used again for every message."""

    __slots__ = ("_at", "_count", "_data", "_end", "_known", "_names", "_out", "delivery_mode", "priority")

    def __init__(self) -> None:
        self.delivery_mode = 0
        self.priority = 0
        self._data = b""
        self._at = 0
        self._end = 0
        self._out = bytearray()
        self._count = 0
        self._names: list[bytes] = []
        self._known: dict[bytes, bytes | None] = {}

    def seal(self, entries: bytes, entry_count: int, address: bytes, properties: bytes) -> bytes | None:
        """The block, with these entries behind the message's own headers and the address in the last; None: ask `seal`."""
        self._data, self._at, self._end = properties, 2, len(properties)
        self._out = bytearray()
        self._count = entry_count
        self._names = []
        self.delivery_mode = self.priority = 0
        if self._end < 2:
            return None
        flags = u16_at(properties, 0)
        if flags & _UNUSUAL or not self._walk(flags, entries) or self._at != self._end:
            return None
        raw = b2a_base64(address + properties, newline=False)
        self._add(b"amqp.raw", 8, len(raw))
        out = self._out
        out += raw
        count = bytearray(varint_size(self._count))
        data = count
        put_varint(data, 0, self._count)
        return bytes(count + out)

    def is_whole(self, properties: bytes) -> bool:
        """Whether this is a property list, from its first byte to its last."""
        self._data, self._at, self._end = properties, 2, len(properties)
        if self._end < 2:
            return False
        data = properties
        flags = u16_at(data, 0)
        if flags & _UNDEFINED:
            return False
        flag = _CONTENT_TYPE
        while flag > 2:
            if flags & flag:
                if flag == _HEADERS:
                    at = self._at
                    if self._end - at < 4:
                        return False
                    at += 4 + u32_at(data, at)
                    if at > self._end or not self._is_table(self._at + 4, at, 0):
                        return False
                    self._at = at
                elif flag in (_DELIVERY_MODE, _PRIORITY):
                    self._at += 1
                elif flag == _TIMESTAMP:
                    self._at += 8
                elif not self._skip_text():
                    return False
            flag >>= 1
        return self._at == self._end

    def _is_table(self, at: int, end: int, depth: int) -> bool:
        data = self._data
        while at < end:
            at += 1 + data[at]
            if at >= end:
                return False
            at = self._after(at, end, depth)
            if at < 0:
                return False
        return True

    def _after(self, at: int, end: int, depth: int) -> int:
        """Where the value at this position ends; -1: not before that one."""
        data = self._data
        letter = data[at]
        at += 1
        size = _SIZES[letter]
        if size == _OF_ANY_LENGTH:
            if end - at < 4:
                return -1
            size = u32_at(data, at)
            at += 4
            if size > end - at:
                return -1
            if letter == 0x46 or letter == 0x41:  # F, A
                if depth >= _DEPTH_MAX:
                    return -1
                if letter == 0x46:
                    return at + size if self._is_table(at, at + size, depth + 1) else -1
                last = at + size
                while at < last:
                    at = self._after(at, last, depth + 1)
                    if at < 0:
                        return -1
                return at
        return at + size if 0 <= size <= end - at else -1

    def _walk(self, flags: int, entries: bytes) -> bool:
        # The message's headers come first in a block; the two properties before them are passed over, and taken later.
        data = self._data
        if flags & _HEADERS:
            flag = _CONTENT_TYPE
            while flag > _HEADERS:
                if flags & flag and not self._skip_text():
                    return False
                flag >>= 1
            if self._end - self._at < 4:
                return False
            length = u32_at(data, self._at)
            self._at += 4
            if length > self._end - self._at or not self._headers(self._at + length):
                return False
            self._at = 2
        self._out += entries
        number = 0
        flag = _CONTENT_TYPE
        while flag > 2:
            if flags & flag and not self._property(flag, number):
                return False
            number += 1
            flag >>= 1
        return True

    def _skip_text(self) -> bool:
        data = self._data
        if self._at >= self._end:
            return False
        self._at += 1 + data[self._at]
        return self._at <= self._end

    def _property(self, flag: int, number: int) -> bool:
        data = self._data
        start = self._at
        if flag == _HEADERS:
            self._at += 4 + u32_at(data, start)
            return True
        if flag in (_DELIVERY_MODE, _PRIORITY):
            if start >= self._end:
                return False
            self._at += 1
            if flag == _DELIVERY_MODE:
                self.delivery_mode = data[start]
            else:
                self.priority = data[start]
                self._put(_NAMES[number], str(self.priority).encode())
            return True
        if flag == _TIMESTAMP:
            if self._end - start < 8:
                return False
            self._at += 8
            self._put(_NAMES[number], str(i64_at(data, start) & 0xFFFF_FFFF_FFFF_FFFF).encode())
            return True
        if not self._skip_text():
            return False
        content = self._data[start + 1 : self._at]
        if flag == _REPLY_TO and content.startswith(_DIRECT_REPLY):
            return False
        if not content.isascii():
            content = content.decode("utf-8", "replace").encode()  # for readers; the raw header has it exactly
        self._put(_NAMES[number], content)
        return True

    def _headers(self, end: int) -> bool:
        data = self._data
        while self._at < end:
            start = self._at + 1
            size = data[self._at]
            value_at = start + size
            if value_at >= end:
                return False
            name = self._data[start:value_at]
            if not name.isascii():
                return False
            if (
                size
                and data[start] in _SPECIAL_BEGIN
                and (name in _SPECIAL or name.startswith((b"mainstem-", b"amqp.")))
            ):
                return False
            if name in self._names or len(self._names) >= HEADERS_MAX:
                return False
            self._names.append(name)
            if not self._header(name, value_at, end):
                return False
        return self._at == end

    def _header(self, name: bytes, at: int, end: int) -> bool:
        data = self._data
        letter = data[at]
        if letter == 0x53 or letter == 0x78:  # S, x
            if end - at < 5:
                return False
            length = u32_at(data, at + 1)
            at += 5
            if length > end - at:
                return False
            self._at = at + length
            if length:
                self._add(name, len(name), length)
                self._out += self._data[at : self._at]
            else:
                self._put(name, b"")
            return True
        if letter == 0x56:  # V
            self._at = at + 1
            self._add(name, len(name), _NULL)
            return True
        after = self._after(at, end, 0)
        if after < 0:
            return False
        self._at = after
        raw = self._data[at:after]
        content = self._known.get(raw)
        if content is None:
            try:
                content = readable(decode_field(raw, 0, len(raw))[0])
            except (AmqpError, IndexError):
                return False
            if len(raw) <= KNOWN_BYTES_MAX:
                if len(self._known) >= KNOWN_MAX:
                    self._known.clear()
                self._known[raw] = content
        self._put(name, content)
        return True

    def _put(self, name: bytes, content: bytes | None) -> None:
        if content is None:
            self._add(name, len(name), _NULL)
        else:
            self._add(name, len(name), len(content))
            self._out += content

    def _add(self, name: bytes, name_size: int, size: int) -> None:
        """One entry more, up to where its content begins."""
        self._count += 1
        out = self._out
        length_size = 1 if size == _NULL else varint_size(size)
        at = grow(out, varint_size(name_size) + name_size + length_size)
        data = out
        at = put_bytes(data, put_varint(data, at, name_size), name, name_size)
        if size == _NULL:
            data[at] = 1
        else:
            put_varint(data, at, size)
