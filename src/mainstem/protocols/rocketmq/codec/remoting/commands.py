"""Commands: requests and answers of the remoting protocol.

    length i32 | header type u8, header length u24 | header | body

The length counts what follows it. A header is JSON (type 0) or binary (type 1); an answer has the type of its request.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from mainstem.protocols.rocketmq.errors import MalformedFrame

Buffer: TypeAlias = bytes | bytearray | memoryview

LENGTH_BYTES = 4
MARK_BYTES = 4
IS_ANSWER, IS_ONE_WAY = 1, 2
"""Bits of the flag."""
JSON, BINARY = 0, 1
PYTHON = 3
"""The number of our language."""
FIELDS_MAX = 1_000
_INT = struct.Struct(">i")
_MARK = struct.Struct(">iI")
_BINARY_HEAD = struct.Struct(">hBhii")
_SHORT = struct.Struct(">h")
INT_MAX = 2**31 - 1


class Command(NamedTuple):
    """One request or answer."""

    code: int
    opaque: int
    """The number by which an answer finds its request."""
    fields: Mapping[str, str] = {}
    body: Buffer = b""
    flag: int = 0
    version: int = 0
    remark: str | None = None
    is_binary: bool = False

    @property
    def is_answer(self) -> bool:
        """Whether it answers a request of the other side."""
        return bool(self.flag & IS_ANSWER)

    @property
    def is_one_way(self) -> bool:
        """Whether nobody waits for an answer."""
        return bool(self.flag & IS_ONE_WAY)


class _JsonHead(msgspec.Struct):
    code: int
    opaque: int = 0
    flag: int = 0
    version: int = 0
    remark: str | None = None
    extFields: dict[str, str | int | float | bool | None] | None = None  # noqa: N815 - its name on the wire


_decode_json = msgspec.json.Decoder(_JsonHead).decode
_encode_json = msgspec.json.Encoder().encode


def decode_command(frame: Buffer) -> Command:
    """A frame without its length. Raises MalformedFrame."""
    with memoryview(frame) as view:
        if len(view) < MARK_BYTES:
            raise MalformedFrame("a frame without a header")
        mark = int.from_bytes(view[:MARK_BYTES])
        kind, size = mark >> 24, mark & 0xFFFFFF
        if size > len(view) - MARK_BYTES:
            raise MalformedFrame(f"a header of {size} bytes in a frame of {len(view)}")
        head, body = view[MARK_BYTES : MARK_BYTES + size], bytes(view[MARK_BYTES + size :])
        if kind == JSON:
            return _json_command(head, body)
        if kind == BINARY:
            return _binary_command(bytes(head), body)
        raise MalformedFrame(f"no header has the type {kind}")


def _json_command(head: memoryview, body: bytes) -> Command:
    try:
        code, opaque, flag, version, remark, fields = msgspec.structs.astuple(_decode_json(head))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"the header is not what it should be: {error}") from None
    if not all(-INT_MAX <= number <= INT_MAX for number in (code, opaque, flag, version)):
        raise MalformedFrame("a number of the header has more than 32 bits")
    texts: dict[str, str] = {}
    if fields:
        if len(fields) > FIELDS_MAX:
            raise MalformedFrame(f"{len(fields)} fields")
        for name, value in fields.items():
            if type(value) is str:
                texts[name] = value
            elif value is not None:
                texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return Command(code, opaque, texts, body, flag, version, remark)


def _binary_command(head: bytes, body: bytes) -> Command:
    try:
        code, _, version, opaque, flag = _BINARY_HEAD.unpack_from(head)
        remark, position = _text(head, _BINARY_HEAD.size)
        size, position = _size(head, position)
        end = position + size
        fields: dict[str, str] = {}
        while position < end:
            length = _SHORT.unpack_from(head, position)[0]
            name = _slice(head, position + 2, length)
            value, position = _text(head, position + 2 + length)
            fields[name.decode()] = value
            if len(fields) > FIELDS_MAX:
                raise MalformedFrame("too many fields")
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrame(f"the header is not what it should be: {error}") from None
    if position != end or end > len(head):
        raise MalformedFrame("the fields do not end where they should")
    return Command(code, opaque, fields, body, flag, version, remark or None, is_binary=True)


def _size(head: bytes, position: int) -> tuple[int, int]:
    size: int = _INT.unpack_from(head, position)[0]
    if not 0 <= size <= len(head) - position - 4:
        raise MalformedFrame(f"a length of {size} in a header of {len(head)} bytes")
    return size, position + 4


def _slice(head: bytes, position: int, length: int) -> bytes:
    if not 0 <= length <= len(head) - position:
        raise MalformedFrame(f"a length of {length} in a header of {len(head)} bytes")
    return head[position : position + length]


def _text(head: bytes, position: int) -> tuple[str, int]:
    size, position = _size(head, position)
    return head[position : position + size].decode(), position + size


def encode_command(command: Command) -> list[Buffer]:
    """The frame, in one or two parts: a large body is not copied."""
    head = _binary_head(command) if command.is_binary else _json_head(command)
    kind = BINARY if command.is_binary else JSON
    body = command.body
    start = _MARK.pack(MARK_BYTES + len(head) + len(body), kind << 24 | len(head)) + head
    return [start, body] if body else [start]


def _json_head(command: Command) -> bytes:
    head: dict[str, object] = {
        "code": int(command.code),
        "flag": command.flag,
        "language": "PYTHON",
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    if command.remark is not None:
        head["remark"] = command.remark
    if command.fields:
        head["extFields"] = command.fields
    return _encode_json(head)


def _binary_head(command: Command) -> bytes:
    remark = (command.remark or "").encode()
    fields = bytearray()
    for name, value in command.fields.items():
        written, content = name.encode(), value.encode()
        fields += _SHORT.pack(len(written)) + written + _INT.pack(len(content)) + content
    start = _BINARY_HEAD.pack(command.code, PYTHON, command.version, command.opaque, command.flag)
    return b"".join((start, _INT.pack(len(remark)), remark, _INT.pack(len(fields)), fields))
