"""gRPC over HTTP/2: calls with messages both ways, each with its length in front; the status is in the trailers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Protocol
from urllib.parse import quote

from mainstem.wire.http2.frames import ErrorCode
from mainstem.wire.http2.session import Http2Session
from mainstem.wire.http2.stream import Stream

PREFIX_BYTES = 5
CONTENT_TYPE = "application/grpc"
_UNITS_S = {"H": 3_600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
TIMEOUT_DIGITS_MAX = 8


class GrpcStatus(IntEnum):
    """How a call ends."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


def literal(name: str, value: str) -> bytes:
    """A header field that leaves no trace in the peer's table (RFC 7541, 6.2.2)."""
    return b"\0" + _sized(name.encode()) + _sized(value.encode())


def _sized(text: bytes) -> bytes:
    size = len(text)
    if size < 127:
        return bytes((size,)) + text
    out = bytearray((127,))
    size -= 127
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    out.append(size)
    return bytes(out) + text


STATUS_200 = b"\x88"
HEAD = STATUS_200 + literal("content-type", CONTENT_TYPE)
DONE = literal("grpc-status", "0")


def parse_timeout(text: str) -> float | None:
    """Seconds; None: no bound, or none that can be read."""
    digits, unit = text[:-1], text[-1:]
    if unit not in _UNITS_S or not digits.isascii() or not digits.isdecimal() or len(digits) > TIMEOUT_DIGITS_MAX:
        return None
    return int(digits) * _UNITS_S[unit]


class Method(Protocol):
    """What is done with one call."""

    def message(self, call: GrpcCall, data: bytes) -> None:
        """The client says something."""

    def ended(self, call: GrpcCall) -> None:
        """The client has said all."""

    def cancelled(self, call: GrpcCall) -> None:
        """Nobody waits for an answer any more."""


class GrpcCall:
    """One call."""

    __slots__ = ("_buffer", "_has_head", "_stream", "context", "headers", "is_done", "method", "path", "session")

    def __init__(self, session: Http2Session, stream: Stream, path: str, headers: Mapping[str, str]) -> None:
        self.session = session
        self._stream = stream
        self.path = path
        self.headers = headers
        self.method: Method
        self.context: object = None
        """Whatever the method keeps."""
        self.is_done = False
        self._has_head = False
        self._buffer = bytearray()

    @property
    def timeout_s(self) -> float | None:
        """How long the client waits."""
        return parse_timeout(self.headers.get("grpc-timeout", ""))

    def send(self, message: bytes) -> None:
        """One message of the answer."""
        if self.is_done:
            return
        if not self._has_head:
            self._has_head = True
            self._stream.send_headers(HEAD)
        self._stream.send_data(b"\0" + len(message).to_bytes(4) + message)

    def finish(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        """The last word."""
        if self.is_done:
            return
        self.is_done = True
        trailers = DONE if status is GrpcStatus.OK else literal("grpc-status", str(int(status)))
        if text:
            trailers += literal("grpc-message", quote(text[:1_000], safe=" !#$&'()*+,/:;=?@[]~"))
        self._stream.end(trailers if self._has_head else HEAD + trailers)

    def received(self, data: bytes, message_bytes_max: int) -> None:
        """Some bytes of the client: hand its messages on."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= PREFIX_BYTES and not self.is_done:
            size = int.from_bytes(buffer[1:PREFIX_BYTES])
            if buffer[0]:
                self.finish(GrpcStatus.UNIMPLEMENTED, "compressed messages are not supported")
                break
            if size > message_bytes_max:
                self.finish(GrpcStatus.RESOURCE_EXHAUSTED, f"a message of {size} bytes; {message_bytes_max} are taken")
                break
            end = PREFIX_BYTES + size
            if len(buffer) < end:
                break
            message = bytes(buffer[PREFIX_BYTES:end])
            del buffer[:end]
            self.method.message(self, message)
        if self._stream.is_ended and not self.is_done:
            if buffer:
                self.finish(GrpcStatus.INVALID_ARGUMENT, "the last message is not complete")
            else:
                self.method.ended(self)
        if self.is_done:
            buffer.clear()

    def gone(self) -> None:
        """The stream or its connection has ended."""
        if not self.is_done:
            self.is_done = True
            self.method.cancelled(self)


class GrpcService(Protocol):
    """What the calls of one connection find."""

    def find(self, path: str) -> Method | None:
        """The method of a path."""

    def pass_ended(self) -> None:
        """All that lay ready was handed on."""

    def hurry(self) -> None:
        """Answer now what waits."""

    def closed(self) -> None:
        """The connection is gone."""


class GrpcConnection:
    """The handlers of an HTTP/2 session whose requests are calls."""

    def __init__(
        self,
        session: Http2Session,
        message_bytes_max: int,
        connect: Callable[[GrpcConnection], GrpcService],
    ) -> None:
        self.session = session
        self._message_bytes_max = message_bytes_max
        self.calls: dict[Stream, GrpcCall] = {}
        self._service = connect(self)

    def opened(self, stream: Stream, headers: list[tuple[str, str]]) -> None:
        """A call begins."""
        named = dict(headers)
        if named.get(":method") != "POST" or not named.get("content-type", "").startswith(CONTENT_TYPE):
            stream.reset(ErrorCode.PROTOCOL_ERROR)
            return
        path = named.get(":path", "")
        call = GrpcCall(self.session, stream, path, named)
        method = self._service.find(path)
        if method is None:
            call.finish(GrpcStatus.UNIMPLEMENTED, f"there is no method {path}")
            return
        call.method = method
        self.calls[stream] = call
        if stream.is_ended:
            call.received(b"", self._message_bytes_max)
        self._forget_done(stream, call)

    def received(self, stream: Stream, data: bytes) -> None:
        """Some of a call."""
        call = self.calls.get(stream)
        if call is not None:
            call.received(data, self._message_bytes_max)
            self._forget_done(stream, call)

    def _forget_done(self, stream: Stream, call: GrpcCall) -> None:
        if call.is_done:
            self.calls.pop(stream, None)

    def reset(self, stream: Stream) -> None:
        """The client has lost interest."""
        call = self.calls.pop(stream, None)
        if call is not None:
            call.gone()

    def pass_ended(self) -> None:
        """Calls that were answered meanwhile are forgotten."""
        self._service.pass_ended()
        if len(self.calls) > 2 * len([one for one in self.calls.values() if not one.is_done]) + 16:
            self.calls = {stream: call for stream, call in self.calls.items() if not call.is_done}

    def hurry(self) -> None:
        """Answer now what waits."""
        self._service.hurry()

    def closed(self) -> None:
        """No call goes on."""
        calls, self.calls = self.calls, {}
        for call in calls.values():
            call.gone()
        self._service.closed()
