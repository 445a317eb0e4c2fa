"""Frames of HTTP/2 (RFC 9113) as bytes.

length u24 | type u8 | flags u8 | stream u31 | payload
"""

from __future__ import annotations

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
FRAME_BYTES_MAX = 16_384
"""Of a payload: what every peer takes, and all that we take."""
WINDOW_BYTES = 65_535
"""What every window begins with."""
WINDOW_BYTES_MAX = 2**31 - 1
STREAM_MASK = 0x7FFFFFFF

END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY_FLAG = 0x1, 0x1, 0x4, 0x8, 0x20
_HEAD = struct.Struct(">BHBBI")
_SETTING = struct.Struct(">HI")
_U32 = struct.Struct(">I")


class FrameType(IntEnum):
    """Those that are known; others are passed over."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """Settings of a connection."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ConnectionFault(Exception):
    """The peer broke the rules: the connection ends."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class StreamFault(Exception):
    """The peer broke the rules on one stream: that stream ends."""

    def __init__(self, stream: int, code: ErrorCode) -> None:
        super().__init__(f"stream {stream}: {code.name}")
        self.stream = stream
        self.code = code


def frame_head(data: memoryview, position: int) -> tuple[int, int, int, int]:
    """Length of the payload, type, flags, stream."""
    high, low, kind, flags, stream = _HEAD.unpack_from(data, position)
    return high << 16 | low, kind, flags, stream & STREAM_MASK


def encode_frame(kind: FrameType, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    size = len(payload)
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def encode_settings(settings: dict[Setting, int]) -> bytes:
    """A frame of settings."""
    return encode_frame(FrameType.SETTINGS, 0, 0, b"".join(_SETTING.pack(*one) for one in settings.items()))


def decode_settings(payload: bytes) -> list[tuple[int, int]]:
    """Raises ConnectionFault."""
    if len(payload) % _SETTING.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "settings have six bytes each")
    return list(_SETTING.iter_unpack(payload))


def encode_window_update(stream: int, size: int) -> bytes:
    """This number of bytes more may be sent."""
    return encode_frame(FrameType.WINDOW_UPDATE, 0, stream, _U32.pack(size))


def encode_reset(stream: int, code: ErrorCode) -> bytes:
    """The stream ends."""
    return encode_frame(FrameType.RST_STREAM, 0, stream, _U32.pack(code))


def encode_goaway(last_stream: int, code: ErrorCode, text: str = "") -> bytes:
    """The connection ends; later streams than this were not looked at."""
    return encode_frame(FrameType.GOAWAY, 0, 0, struct.pack(">II", last_stream, code) + text.encode()[:200])


def decode_u32(payload: bytes, kind: FrameType) -> int:
    """Of a frame that has one number. Raises ConnectionFault."""
    if len(payload) != _U32.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"{kind.name} has four bytes")
    number: int = _U32.unpack(payload)[0]
    return number


def unpadded(payload: bytes, flags: int, *, has_priority: bool = False) -> bytes:
    """Without padding, and without the fields of a priority. Raises ConnectionFault."""
    start, end = 0, len(payload)
    if flags & PADDED:
        if not payload:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "padding without a length")
        start, end = 1, end - payload[0]
    if has_priority and flags & PRIORITY_FLAG:
        start += 5
    if start > end:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    return payload[start:end] if start or end < len(payload) else payload
