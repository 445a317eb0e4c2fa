"""Frames: a command, headers, an empty line, a body, NUL. Between frames, line ends are heart-beats.

Heads are kept, because most publishers repeat theirs: a frame whose head is known costs no decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from mainstem.protocols.stomp.codec.escapes import V1_0, V1_2, escape, is_sayable, unescape
from mainstem.protocols.stomp.errors import MalformedFrame, StompError

HEADS_MAX = 1_024
HEAD_KEPT_BYTES_MAX = 1_024
"""Longer heads hardly come again."""
LENGTH_DIGITS_MAX = 18
UNESCAPED = frozenset({"CONNECT", "STOMP", "CONNECTED"})
EOL = b"\n"
_BETWEEN = b"\r\n\0"


class Head:
    """Command and headers of frames. The same object stands for frames whose heads are the same bytes."""

    __slots__ = ("command", "headers", "length")

    def __init__(self, command: str, headers: Mapping[str, str], length: int) -> None:
        self.command = command
        self.headers = headers
        """Of a name that comes twice the first counts."""
        self.length = length
        """Bytes of the body; -1: up to the first NUL."""


class FrameLimits(Protocol):
    """What a frame may be."""

    @property
    def head_bytes_max(self) -> int:
        """Command and headers."""

    @property
    def headers_max(self) -> int:
        """Headers."""

    @property
    def message_bytes_max(self) -> int:
        """The body."""


class FrameSink(Protocol):
    """Where frames go."""

    def frame_received(self, head: Head, body: bytes) -> bool:
        """One frame; answers whether to stop here for now. Raises StompError."""


class FrameReader:
    """Frames of one connection, from bytes that come in any pieces."""

    def __init__(self, sink: FrameSink, limits: FrameLimits) -> None:
        self.wanted = 1
        """How many bytes are needed for more."""
        self.version = V1_0
        self.limits = limits
        self._sink = sink
        self._heads: dict[bytes, Head] = {}
        self._head: Head | None = None
        """Of the frame whose body is coming."""
        self._searched = 0
        """Bytes of that body without a NUL."""

    def speak(self, version: str, limits: FrameLimits) -> None:
        """From now on frames are of this version, and of this size."""
        self.version = version
        self.limits = limits
        self._heads.clear()

    def read(self, data: memoryview) -> int:
        """Hand on whole frames; answers how many bytes were used. Raises StompError."""
        head = self._head
        if head is not None:
            if head.length >= 0:
                if len(data) <= head.length:
                    self.wanted = head.length + 1
                    return 0
            elif not self._is_ended(bytes(data[self._searched :])):
                return 0
        content = bytes(data)
        position = 0
        while True:
            if self._head is None:
                position = self._read_head(content, position)
                if self._head is None:
                    return position
            body = self._body(content, position, self._head)
            if body is None:
                return position
            head, self._head = self._head, None
            position += len(body) + 1
            if self._sink.frame_received(head, body):
                self.wanted = 1
                return position

    def _is_ended(self, piece: bytes) -> bool:
        """Whether a body of unknown length ends in this piece, which follows what was searched before."""
        if b"\0" in piece:
            return True
        self._searched += len(piece)
        self.wanted = self._searched + 1
        if self._searched > self.limits.message_bytes_max:
            self._refuse_size(self._searched)
        return False

    def _read_head(self, content: bytes, position: int) -> int:
        """Have the head that begins here at hand, if it is whole; answers where to go on."""
        end = len(content)
        while position < end and content[position] in _BETWEEN:
            position += 1
        self.wanted = 1
        if position == end:
            return position
        limit = min(end, position + self.limits.head_bytes_max)
        last, size = content.find(b"\n\n", position, limit), 2
        other = content.find(b"\n\r\n", position, limit if last < 0 else last)
        if other >= 0:
            last, size = other, 3
        if last < 0:
            if end - position >= self.limits.head_bytes_max:
                raise MalformedFrame(f"command and headers have at most {self.limits.head_bytes_max} bytes")
            self.wanted = end - position + 1
            return position
        raw = content[position:last]
        head = self._heads.get(raw)
        if head is None:
            head = decode_head(raw, self.version, self.limits.headers_max)
            if len(raw) <= HEAD_KEPT_BYTES_MAX:
                if len(self._heads) >= HEADS_MAX:
                    self._heads.clear()
                self._heads[raw] = head
        if head.length > self.limits.message_bytes_max:
            self._refuse_size(head.length)
        self._head, self._searched = head, 0
        return last + size

    def _body(self, content: bytes, position: int, head: Head) -> bytes | None:
        if head.length >= 0:
            end = position + head.length
            if end >= len(content):
                self.wanted = head.length + 1
                return None
            if content[end]:
                raise MalformedFrame("no NUL behind the body")
            return content[position:end]
        end = content.find(b"\0", position)
        if end < 0:
            self._is_ended(content[position:])
            return None
        if end - position > self.limits.message_bytes_max:
            self._refuse_size(end - position)
        return content[position:end]

    def _refuse_size(self, size: int) -> None:
        limit = self.limits.message_bytes_max
        raise StompError("Frame too large", f"a body of {size} bytes is larger than the maximum of {limit}\n")


def decode_head(raw: bytes, version: str, headers_max: int) -> Head:
    """Command and headers, without the empty line. Raises MalformedFrame."""
    first, *lines = raw.split(EOL)
    try:
        command = first.removesuffix(b"\r").decode("ascii")
    except UnicodeDecodeError:
        raise MalformedFrame("the command is not ASCII") from None
    if b"\0" in raw:
        raise MalformedFrame("NUL before the end of the headers")
    if len(lines) > headers_max:
        raise MalformedFrame(f"more than {headers_max} headers")
    if command in UNESCAPED:
        version = V1_0
    headers: dict[str, str] = {}
    for line in lines:
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise MalformedFrame("a header is not UTF-8") from None
        name, colon, value = text.partition(":")
        if not colon or not name:
            raise MalformedFrame("a header line without a name and a colon")
        if version == V1_0:
            value = value.lstrip(" ")
        else:
            if version == V1_2 and "\r" in text:
                raise MalformedFrame("CR inside a header")
            name, value = unescape(name, version), unescape(value, version)
        headers.setdefault(name, value)
    return Head(command, headers, _length(headers.get("content-length")))


def _length(text: str | None) -> int:
    if text is None:
        return -1
    digits = text.strip(" ")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= LENGTH_DIGITS_MAX):
        raise MalformedFrame("content-length is no number")
    return int(digits)


def encode_headers(headers: Iterable[tuple[str, str]], version: str) -> bytes:
    """Header lines. What the version cannot say is left out: nothing that a publisher writes can end a frame."""
    lines = [
        f"{escape(name, version)}:{escape(value, version)}\n"
        for name, value in headers
        if is_sayable(name, value, version)
    ]
    return "".join(lines).encode("utf-8", "replace")


def encode_frame(command: str, headers: Iterable[tuple[str, str]], body: bytes = b"", version: str = V1_2) -> bytes:
    """A whole frame, and the line end behind it that old clients wait for."""
    lines = encode_headers(headers, V1_0 if command in UNESCAPED else version)
    length = b"content-length:%d\n" % len(body) if body else b""
    return b"".join((command.encode(), EOL, lines, length, EOL, body, b"\0\n"))
