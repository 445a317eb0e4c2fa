"""A connection of HTTP/2 as a server keeps it: frames in, streams to handlers, answers out within the peer's windows.

    state     what it means                                goes on to
    OPENING   the preface is not complete                  OPEN, ENDED
    OPEN      streams are taken as they come               ENDING, ENDED
    ENDING    no new streams; those that are open go on    ENDED
    ENDED     nothing follows

What arrives is credited to the peer as soon as it was handed on, except what a handler withholds: a publisher that must wait
is stopped by the window of its connection, not by the socket, so that everything else goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

import hpack
import msgspec

from mainstem.wire.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    HEAD_BYTES,
    PREFACE,
    WINDOW_BYTES,
    WINDOW_BYTES_MAX,
    ConnectionFault,
    ErrorCode,
    FrameType,
    Setting,
    StreamFault,
    decode_settings,
    decode_u32,
    encode_frame,
    encode_goaway,
    encode_reset,
    encode_settings,
    encode_window_update,
    frame_head,
    unpadded,
)
from mainstem.wire.http2.stream import Stream

PING_BYTES = 8
FRAME_BYTES_LIMIT = (1 << 24) - 1
CREDIT_BYTES = 256 << 10
"""Credit is given when so much has come together."""
ANSWERS_UNSENT_BYTES_MAX = 64 << 20
"""Of one connection. A peer that asks for more without reading it is not served."""
RESETS_MAX = 10_000
"""Streams that a peer may open and reset more than it lets finish."""


class Http2Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection may cost."""

    streams_max: int = 1_000
    header_bytes_max: int = 16 << 10
    """Of one request, decompressed."""
    stream_window_bytes: int = 1 << 20
    connection_window_bytes: int = 16 << 20


class Http2Handlers(Protocol):
    """What requests of one connection do."""

    def opened(self, stream: Stream, headers: list[tuple[str, str]]) -> None:
        """A request begins."""

    def received(self, stream: Stream, data: bytes) -> None:
        """Some of its content; `stream.is_ended` says whether that was all."""

    def reset(self, stream: Stream) -> None:
        """The peer has lost interest."""

    def pass_ended(self) -> None:
        """All that lay ready was handed on."""

    def hurry(self) -> None:
        """The connection is to end: answer now what waits."""

    def closed(self) -> None:
        """The connection is gone."""


class SessionState(Enum):
    """See the module's table."""

    OPENING = "opening"
    OPEN = "open"
    ENDING = "ending"
    ENDED = "ended"


OPENING, OPEN, ENDING, ENDED = SessionState


class Http2Session:
    """One connection."""

    def __init__(
        self, wake: Callable[[], None], limits: Http2Limits, connect: Callable[[Http2Session], Http2Handlers]
    ) -> None:
        self.input_wanted: int | None = 1
        self._wake = wake
        self._limits = limits
        self._state: SessionState = OPENING
        self._output: list[bytes] = []
        self._streams: dict[int, Stream] = {}
        self._last_stream = 0
        self._decoder = hpack.Decoder(limits.header_bytes_max)
        self._block: tuple[int, int, bytearray] | None = None
        """A header block under way: stream, flags of its first frame, what came of it."""
        self._send_window = WINDOW_BYTES
        self._peer_window = WINDOW_BYTES
        self._peer_frame_max = FRAME_BYTES_MAX
        self._credit = 0
        self._receive_window = limits.connection_window_bytes
        self._resets = 0
        self._is_receiving = self._is_closed = False
        self._handlers = connect(self)

    @property
    def finished(self) -> bool:
        """All was said."""
        return self._state is ENDED

    @property
    def busy(self) -> bool:
        """A request was made, or an answer waits for the peer's window. A stream that lasts is not by itself busy."""
        return any(stream.is_ended or stream.has_unsent for stream in self._streams.values())

    # Input

    def data_received(self, data: memoryview) -> int:
        """Hand complete frames on."""
        self._is_receiving = True
        try:
            used = self._take(data)
        except ConnectionFault as fault:
            self._fail(fault)
            used = len(data)
        finally:
            self._is_receiving = False
        self._handlers.pass_ended()
        self._rest()
        return used

    def _take(self, data: memoryview) -> int:
        position, available = 0, len(data)
        if self._state is OPENING:
            if bytes(data[: len(PREFACE)]) != PREFACE[:available]:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "this is not HTTP/2")
            if available < len(PREFACE):
                self.input_wanted = len(PREFACE)
                return 0
            position = len(PREFACE)
            self._open()
        while self._state is not ENDED:
            left = available - position
            if left < HEAD_BYTES:
                self.input_wanted = HEAD_BYTES
                return position
            size, kind, flags, stream = frame_head(data, position)
            if size > FRAME_BYTES_MAX:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
            if left < HEAD_BYTES + size:
                self.input_wanted = HEAD_BYTES + size
                return position
            start = position + HEAD_BYTES
            try:
                self._handle(kind, flags, stream, bytes(data[start : start + size]))
            except StreamFault as fault:
                self._reset_by_us(fault)
            position = start + size
        return available

    def _open(self) -> None:
        limits = self._limits
        self._state = OPEN
        self.put(
            encode_settings(
                {
                    Setting.MAX_CONCURRENT_STREAMS: limits.streams_max,
                    Setting.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
                    Setting.MAX_HEADER_LIST_SIZE: limits.header_bytes_max,
                }
            )
        )
        self.put(encode_window_update(0, limits.connection_window_bytes - WINDOW_BYTES))

    def _handle(self, kind: int, flags: int, number: int, payload: bytes) -> None:  # noqa: C901 - one branch per kind
        if self._block is not None and kind != FrameType.CONTINUATION:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block is not complete")
        match kind:
            case FrameType.DATA:
                self._on_data(flags, number, payload)
            case FrameType.HEADERS:
                block = unpadded(payload, flags, has_priority=True)
                self._block = (number, flags, bytearray(block))
                self._on_block(flags)
            case FrameType.CONTINUATION:
                self._on_continuation(flags, number, payload)
            case FrameType.RST_STREAM:
                self._on_reset(number, payload)
            case FrameType.SETTINGS:
                self._on_settings(flags, number, payload)
            case FrameType.PING:
                if number or len(payload) != PING_BYTES:
                    raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a ping has eight bytes")
                if not flags & ACK:
                    self.put(encode_frame(FrameType.PING, ACK, 0, payload))
            case FrameType.WINDOW_UPDATE:
                self._on_window(number, decode_u32(payload, FrameType.WINDOW_UPDATE))
            case FrameType.GOAWAY:
                self._end()
            case FrameType.PUSH_PROMISE:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client pushes nothing")
            case _:
                pass  # Priorities, and what is not known, have no effect.

    def _on_data(self, flags: int, number: int, payload: bytes) -> None:
        self._receive_window -= len(payload)
        if self._receive_window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more than the window of the connection")
        self._credit += len(payload)
        stream = self._streams.get(number)
        if stream is None:
            if number == 0 or number > self._last_stream:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {number} was not opened")
            return  # It has ended, and the peer may not know it yet.
        if stream.is_ended:
            raise StreamFault(number, ErrorCode.STREAM_CLOSED)
        data = unpadded(payload, flags)
        stream.is_ended = bool(flags & END_STREAM)
        if payload and not stream.is_ended:
            # What handlers keep of a message is bounded by them; so a stream gets back at once what it has used.
            self.put(encode_window_update(number, len(payload)))
        self._handlers.received(stream, data)

    def _on_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block that did not begin")
        block = self._block[2]
        block += payload
        if len(block) > self._limits.header_bytes_max:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many bytes of headers")
        self._on_block(flags)

    def _on_block(self, flags: int) -> None:
        if not flags & END_HEADERS:
            return
        assert self._block is not None
        (number, first_flags, block), self._block = self._block, None
        try:
            headers = [(_text(name), _text(value)) for name, value in self._decoder.decode(bytes(block), raw=True)]
        except (hpack.HPACKError, UnicodeDecodeError) as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, f"headers cannot be read: {error}") from None
        known = self._streams.get(number)
        if known is not None:
            self._on_trailers(known, first_flags)
            return
        if number % 2 == 0 or number <= self._last_stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {number} cannot be opened")
        self._last_stream = number
        if self._state is not OPEN or len(self._streams) >= self._limits.streams_max:
            raise StreamFault(number, ErrorCode.REFUSED_STREAM)
        stream = self._streams[number] = Stream(self, number, self._peer_window)
        stream.is_ended = bool(first_flags & END_STREAM)
        self._handlers.opened(stream, headers)

    def _on_trailers(self, stream: Stream, flags: int) -> None:
        if stream.is_ended or not flags & END_STREAM:
            raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR)
        stream.is_ended = True
        self._handlers.received(stream, b"")

    def _on_reset(self, number: int, payload: bytes) -> None:
        decode_u32(payload, FrameType.RST_STREAM)
        if number == 0 or number > self._last_stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {number} was not opened")
        stream = self._streams.get(number)
        if stream is not None:
            self._resets += 1
            if self._resets > RESETS_MAX:
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many streams were reset")
            self._forget(stream)
            self._handlers.reset(stream)

    def _on_settings(self, flags: int, number: int, payload: bytes) -> None:
        if number or (flags & ACK and payload):
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "settings are of the connection")
        if flags & ACK:
            return
        for setting, value in decode_settings(payload):
            if setting == Setting.INITIAL_WINDOW_SIZE:
                self._resize_windows(value)
            elif setting == Setting.MAX_FRAME_SIZE:
                if not FRAME_BYTES_MAX <= value <= FRAME_BYTES_LIMIT:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"frames of {value} bytes")
                self._peer_frame_max = min(value, CREDIT_BYTES)
        self.put(encode_frame(FrameType.SETTINGS, ACK, 0))
        self._flush()

    def _resize_windows(self, value: int) -> None:
        if value > WINDOW_BYTES_MAX:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window above its limit")
        for stream in self._streams.values():
            stream.window += value - self._peer_window
        self._peer_window = value

    def _on_window(self, number: int, size: int) -> None:
        size &= WINDOW_BYTES_MAX
        if number == 0:
            self._send_window += size
            if not size or self._send_window > WINDOW_BYTES_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window above its limit")
            self._flush()
            return
        stream = self._streams.get(number)
        if stream is None:
            if number > self._last_stream:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {number} was not opened")
            return
        stream.window += size
        if not size or stream.window > WINDOW_BYTES_MAX:
            raise StreamFault(number, ErrorCode.FLOW_CONTROL_ERROR)
        self.flush_stream(stream)

    # Credit of the peer

    def withhold(self, size: int) -> None:
        """Give no credit for this number of bytes until they are released."""
        self._credit -= size

    def release(self, size: int) -> None:
        """Give it now."""
        self._credit += size
        self._rest()
        self._wake()

    # Output

    def put(self, frame: bytes) -> None:
        """Say it."""
        if self._state is ENDED:
            return
        self._output.append(frame)
        if not self._is_receiving:
            self._wake()

    def flush_stream(self, stream: Stream) -> None:
        """Send of it what the windows allow."""
        frames, spent, has_ended = stream.take(self._send_window, self._peer_frame_max)
        self._send_window -= spent
        for frame in frames:
            self.put(frame)
        if has_ended:
            self._resets = max(self._resets - 1, 0)
            if not stream.is_ended:
                # The peer may stop sending: nobody listens.
                self.put(encode_reset(stream.id, ErrorCode.NO_ERROR))
            self._forget(stream)
            if not self._is_receiving:
                self._rest()
        elif sum(one.unsent_bytes for one in self._streams.values()) > ANSWERS_UNSENT_BYTES_MAX and spent == 0:
            self.reset_stream(stream, ErrorCode.ENHANCE_YOUR_CALM)

    def _flush(self) -> None:
        for stream in [one for one in self._streams.values() if one.has_unsent]:
            self.flush_stream(stream)

    def reset_stream(self, stream: Stream, code: ErrorCode) -> None:
        """End a stream."""
        self.put(encode_reset(stream.id, code))
        self._forget(stream)
        if not self._is_receiving:
            self._rest()

    def _reset_by_us(self, fault: StreamFault) -> None:
        stream = self._streams.get(fault.stream)
        self.put(encode_reset(fault.stream, fault.code))
        if stream is not None:
            self._forget(stream)
            self._handlers.reset(stream)

    def _forget(self, stream: Stream) -> None:
        stream.is_gone = True
        self._streams.pop(stream.id, None)

    def take_output(self) -> list[bytes]:
        """In the order in which it was said."""
        output, self._output = self._output, []
        return output

    def _rest(self) -> None:
        """After input or answers: give credit, or end."""
        if self._credit >= CREDIT_BYTES and self._state is not ENDED:
            credit, self._credit = self._credit, 0
            self._receive_window += credit
            self._output.append(encode_window_update(0, credit))
        if self._state is ENDING and not self._streams:
            self._finish()

    # What the transport calls

    def input_ended(self) -> None:
        """Nobody can say more: what is owed is still answered."""
        self._end()

    def output_paused(self) -> None:
        """Windows bound what is sent."""

    def output_resumed(self) -> None:
        """Nothing was held back."""

    def time_passed(self, now: float) -> None:
        """Requests keep their own time."""

    def drain(self) -> None:
        """Take no new streams; answer those that are open."""
        if self._state is OPEN:
            self.put(encode_goaway(self._last_stream, ErrorCode.NO_ERROR))
        self._end()

    def closed(self) -> None:
        """Let go of all."""
        self._finish()

    def _end(self) -> None:
        if self._state in (OPENING, OPEN):
            self._state = ENDING
            self._handlers.hurry()
            if not self._is_receiving:
                self._rest()

    def _fail(self, fault: ConnectionFault) -> None:
        self.put(encode_goaway(self._last_stream, fault.code, str(fault)))
        self._finish()

    def _finish(self) -> None:
        self._state = ENDED
        self.input_wanted = None
        if not self._is_closed:
            self._is_closed = True
            for stream in self._streams.values():
                stream.is_gone = True
            self._streams.clear()
            self._handlers.closed()


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else bytes(data).decode("latin-1")
