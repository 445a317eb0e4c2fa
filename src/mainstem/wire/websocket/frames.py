"""Frames of RFC 6455: heads, masks, closing. Pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_OPCODES = frozenset((CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG))
CONTROL_BYTES_MAX = 125
NORMAL, GOING_AWAY, PROTOCOL_ERROR, UNSUPPORTED, INVALID_TEXT, POLICY, TOO_BIG = (
    1000,
    1001,
    1002,
    1003,
    1007,
    1008,
    1009,
)
_CODES_SENT = frozenset((1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014))
"""Codes that a peer may send; 3000 to 4999 besides, for applications."""

_SHORT = struct.Struct(">H")
_LONG = struct.Struct(">Q")


class WebSocketError(Exception):
    """What the peer did wrong; `code` is what it is told in the Close frame."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class FrameHead(NamedTuple):
    """What stands before the content of a frame."""

    opcode: int
    is_final: bool
    size: int
    mask: bytes

    @property
    def is_control(self) -> bool:
        """Whether it may stand between the frames of a message."""
        return self.opcode >= CLOSE


def head_bytes(data: memoryview) -> int:
    """How long a client's head is, as far as one can see: 2 until the length is known."""
    if len(data) < 2 or not data[1] & 0x80:
        return 2  # without a mask it is refused at once
    length = data[1] & 0x7F
    return 6 + (8 if length == 127 else 2 if length == 126 else 0)


def decode_head(data: memoryview) -> FrameHead:
    """Of a whole head. Raises WebSocketError."""
    first, second = data[0], data[1]
    opcode, is_final, size = first & 0x0F, bool(first & 0x80), second & 0x7F
    if first & 0x70:
        raise WebSocketError(PROTOCOL_ERROR, "reserved bits are set")
    if opcode not in _OPCODES:
        raise WebSocketError(PROTOCOL_ERROR, f"unknown opcode {opcode}")
    if not second & 0x80:
        raise WebSocketError(PROTOCOL_ERROR, "a client masks its frames")
    position = 2
    if size == 126:
        (size,) = _SHORT.unpack_from(data, 2)
        position = 4
        if size <= CONTROL_BYTES_MAX:
            raise WebSocketError(PROTOCOL_ERROR, "a length is longer than it need be")
    elif size == 127:
        (size,) = _LONG.unpack_from(data, 2)
        position = 10
        if size < 1 << 16 or size >= 1 << 63:
            raise WebSocketError(PROTOCOL_ERROR, "a length cannot be")
    head = FrameHead(opcode, is_final, size, bytes(data[position : position + 4]))
    if head.is_control and (size > CONTROL_BYTES_MAX or not is_final):
        raise WebSocketError(PROTOCOL_ERROR, "a control frame is short and whole")
    return head


def masked(content: Buffer, mask: bytes, at: int = 0) -> bytes:
    """Masked or unmasked, which is the same; `at` bytes of the frame came before."""
    size = len(content)
    turned = mask[at & 3 :] + mask[: at & 3]
    pattern = (turned * (size // 4 + 1))[:size]
    return (int.from_bytes(content, "little") ^ int.from_bytes(pattern, "little")).to_bytes(size, "little")


def encode_head(opcode: int, size: int) -> bytes:
    """Of a whole message, from the server."""
    if size <= CONTROL_BYTES_MAX:
        return bytes((0x80 | opcode, size))
    if size < 1 << 16:
        return bytes((0x80 | opcode, 126)) + _SHORT.pack(size)
    return bytes((0x80 | opcode, 127)) + _LONG.pack(size)


def encode_message(opcode: int, parts: Sequence[Buffer]) -> list[Buffer]:
    """One message in one frame."""
    return [encode_head(opcode, sum(map(len, parts))), *parts]


def encode_close(code: int, why: str = "") -> bytes:
    """The last frame."""
    content = _SHORT.pack(code) + why.encode()[: CONTROL_BYTES_MAX - 2].decode(errors="ignore").encode()
    return encode_head(CLOSE, len(content)) + content


def decode_close(content: bytes) -> int:
    """The code of a Close frame, 1000 where there is none. Raises WebSocketError."""
    if not content:
        return NORMAL
    if len(content) == 1:
        raise WebSocketError(PROTOCOL_ERROR, "half a code")
    (code,) = _SHORT.unpack_from(content)
    if code not in _CODES_SENT and not 3000 <= code <= 4999:
        raise WebSocketError(PROTOCOL_ERROR, f"nobody sends code {code}")
    try:
        content[2:].decode()
    except UnicodeDecodeError:
        raise WebSocketError(INVALID_TEXT, "the reason is not UTF-8") from None
    return int(code)
