"""HTTP/2 with gRPC for the contract suite: an echo on a lasting stream.

Answers that came later would stand between other frames than before: HTTP/2 has no order between those.
"""

import hpack

from mainstem.transport.session import Wake
from mainstem.wire.http2.frames import (
    END_HEADERS,
    PADDED,
    PREFACE,
    ErrorCode,
    FrameType,
    encode_frame,
    encode_reset,
    encode_settings,
    encode_window_update,
)
from mainstem.wire.http2.grpc import DONE, GrpcCall, GrpcConnection, Method
from mainstem.wire.http2.session import Http2Limits, Http2Session

LIMITS = Http2Limits(streams_max=10, header_bytes_max=4_096)
HEADERS = [(":method", "POST"), (":path", "/echo"), ("content-type", "application/grpc"), ("x-own", "value" * 20)]


def grpc_message(data: bytes) -> bytes:
    return b"\0" + len(data).to_bytes(4, "big") + data


def request(stream: int, headers: list[tuple[str, str]] | None = None, flags: int = END_HEADERS) -> bytes:
    """The frames that open a call, the second of them a continuation."""
    block = hpack.Encoder().encode(headers or HEADERS)
    first = encode_frame(FrameType.HEADERS, flags & ~END_HEADERS, stream, block[:20])
    return first + encode_frame(FrameType.CONTINUATION, END_HEADERS, stream, block[20:])


OPENING = PREFACE + encode_settings({}) + request(1) + encode_frame(FrameType.DATA, 0, 1, grpc_message(b"first"))
CONVERSATION = b"".join(
    (
        encode_frame(FrameType.DATA, 0, 1, grpc_message(b"hello")[:3]),
        encode_frame(FrameType.PING, 0, 0, b"12345678"),
        encode_frame(FrameType.DATA, PADDED, 1, b"\x04" + grpc_message(b"hello")[3:] + bytes(4)),
        encode_frame(FrameType.PRIORITY, 0, 1, bytes(5)),
        encode_window_update(0, 1_000),
        encode_window_update(1, 1_000),
        encode_frame(FrameType.DATA, 0, 1, grpc_message(b"one") + grpc_message(b"") + grpc_message(b"x" * 300)),
        b"\x00\x00\x02\xee\x00\x00\x00\x00\x01??",
        encode_settings({}),
    )
)
OVERSIZE = (
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    OPENING + b"\x00\x40\x01\x00\x00\x00\x00\x00\x01",
    OPENING
    + encode_frame(FrameType.HEADERS, 0, 3, b"\x00" * 3_000)
    + encode_frame(FrameType.CONTINUATION, 0, 3, b"\x00" * 3_000),
)
FAREWELL = encode_frame(FrameType.HEADERS, 5, 1, DONE) + encode_reset(1, ErrorCode.NO_ERROR)


class Echo:
    """Says everything back."""

    def message(self, call: GrpcCall, data: bytes) -> None:
        call.send(data)

    def ended(self, call: GrpcCall) -> None:
        call.finish()

    def cancelled(self, call: GrpcCall) -> None: ...


class EchoService:
    def __init__(self, connection: GrpcConnection) -> None:
        self._connection = connection
        self._echo = Echo()

    def find(self, path: str) -> Method | None:
        return self._echo if path == "/echo" else None

    def pass_ended(self) -> None: ...

    def hurry(self) -> None:
        for call in self._connection.calls.values():
            call.finish()

    def closed(self) -> None: ...


def open_session(wake: Wake) -> Http2Session:
    return Http2Session(wake, LIMITS, lambda session: GrpcConnection(session, 1_000, EchoService))
