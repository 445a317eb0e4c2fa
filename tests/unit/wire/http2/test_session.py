"""HTTP/2 as a server keeps it: windows both ways, resets, faults of a stream and of the connection, many streams."""

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.wire.http2.frames import (
    END_HEADERS,
    END_STREAM,
    PREFACE,
    ErrorCode,
    FrameType,
    Setting,
    encode_frame,
    encode_reset,
    encode_settings,
    encode_window_update,
)
from mainstem.wire.http2.grpc import GrpcCall, GrpcConnection, GrpcStatus, literal, parse_timeout
from mainstem.wire.http2.session import Http2Limits, Http2Session

HEADERS = [(":method", "POST"), (":path", "/m"), ("content-type", "application/grpc")]


class Peer:
    """A client, and the service behind the session."""

    def __init__(self, streams_max: int = 1_000, message_bytes_max: int = 1 << 20, **limits: int) -> None:
        self.calls: list[GrpcCall] = []
        self.messages: list[bytes] = []
        self.cancelled_calls: list[GrpcCall] = []
        self.is_closed = False
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._unread = b""
        self.session = Http2Session(
            lambda: None,
            Http2Limits(streams_max=streams_max, **limits),
            lambda session: GrpcConnection(session, message_bytes_max, lambda connection: self),
        )
        self.say(PREFACE + encode_settings({}))
        self.heard()

    # the service

    def find(self, path: str) -> "Peer | None":
        return self if path == "/m" else None

    def message(self, call: GrpcCall, data: bytes) -> None:
        self.calls.append(call)
        self.messages.append(data)

    def ended(self, call: GrpcCall) -> None: ...

    def cancelled(self, call: GrpcCall) -> None:
        self.cancelled_calls.append(call)

    def pass_ended(self) -> None: ...

    def hurry(self) -> None: ...

    def closed(self) -> None:
        self.is_closed = True

    # the client

    def say(self, data: bytes) -> None:
        data = self._unread + data
        used = self.session.data_received(memoryview(bytearray(data)))
        self._unread = data[used:]

    def call(self, stream: int, message: bytes = b"", headers: list[tuple[str, str]] | None = None) -> None:
        block = self._encoder.encode(headers or HEADERS)
        self.say(encode_frame(FrameType.HEADERS, END_HEADERS, stream, block))
        content = b"\0" + len(message).to_bytes(4, "big") + message
        for at in range(0, len(content), 16_000):
            flags = END_STREAM if at + 16_000 >= len(content) else 0
            self.say(encode_frame(FrameType.DATA, flags, stream, content[at : at + 16_000]))

    def heard(self) -> list[tuple[int, int, int, bytes]]:
        """Type, flags, stream and payload of each frame."""
        data = b"".join(self.session.take_output())
        frames = []
        while data:
            size = int.from_bytes(data[:3], "big")
            frames.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]))
            data = data[9 + size :]
        return frames

    def data_of(self, stream: int) -> bytes:
        return b"".join(payload for kind, _, number, payload in self.heard() if kind == 0 and number == stream)

    def fault(self) -> ErrorCode:
        """Why the connection ended."""
        assert self.session.finished
        assert self.is_closed
        (payload,) = [payload for kind, _, _, payload in self.heard() if kind == FrameType.GOAWAY]
        return ErrorCode(int.from_bytes(payload[4:8], "big"))

    def status_of(self, stream: int) -> dict[str, str]:
        blocks = [payload for kind, _, number, payload in self.heard() if kind == 1 and number == stream]
        return dict(self._decoder.decode(blocks[-1]))


def test_a_large_answer_keeps_to_the_windows_of_the_peer() -> None:
    peer = Peer()
    peer.call(1)
    peer.heard()
    peer.calls[0].send(b"x" * 200_000)
    peer.calls[0].finish()
    sent = len(peer.data_of(1))
    assert sent == 65_535
    peer.say(encode_window_update(1, 1 << 20))
    assert peer.data_of(1) == b"", "the window of the connection is used up"
    peer.say(encode_window_update(0, 100_000))
    sent += len(peer.data_of(1))
    assert sent == 165_535
    peer.say(encode_window_update(0, 100_000))
    frames = peer.heard()
    assert sent + sum(len(payload) for kind, _, _, payload in frames if kind == 0) == 200_005
    assert frames[-1][:3] == (FrameType.HEADERS, END_HEADERS | END_STREAM, 1)
    assert not peer.session.busy


def test_a_smaller_first_window_holds_for_streams_that_are_open() -> None:
    peer = Peer()
    peer.call(1)
    peer.say(encode_settings({Setting.INITIAL_WINDOW_SIZE: 10}))
    peer.heard()
    peer.calls[0].send(b"x" * 50)
    assert len(peer.data_of(1)) == 10
    peer.say(encode_settings({Setting.INITIAL_WINDOW_SIZE: 30}))
    assert len(peer.data_of(1)) == 20


def test_what_is_withheld_is_not_credited() -> None:
    peer = Peer(message_bytes_max=4 << 20, connection_window_bytes=1 << 20)
    peer.call(1, b"x" * 500_000)
    updates = [payload for kind, _, number, payload in peer.heard() if kind == FrameType.WINDOW_UPDATE and number == 0]
    credited = sum(int.from_bytes(payload, "big") for payload in updates)
    assert credited >= 256 << 10
    peer.session.withhold(400_000)
    peer.call(3, b"x" * 400_000)
    assert not [1 for kind, _, number, _ in peer.heard() if kind == FrameType.WINDOW_UPDATE and number == 0]
    peer.session.release(400_000)
    assert [1 for kind, _, number, _ in peer.heard() if kind == FrameType.WINDOW_UPDATE and number == 0]


def test_more_than_the_window_ends_the_connection() -> None:
    peer = Peer(connection_window_bytes=65_535)
    peer.session.withhold(1 << 20)
    peer.call(1, b"x" * 100_000)
    assert peer.fault() is ErrorCode.FLOW_CONTROL_ERROR


def test_a_thousand_streams_and_one_more() -> None:
    peer = Peer(streams_max=1_000)
    for number in range(1_000):
        peer.call(2 * number + 1, b"%d" % number)
    assert len(peer.calls) == 1_000
    peer.heard()
    peer.call(2_001, b"too many")
    assert (FrameType.RST_STREAM, 0, 2_001, ErrorCode.REFUSED_STREAM.to_bytes(4, "big")) in peer.heard()
    for call in reversed(peer.calls):
        call.send(b"answer")
        call.finish()
    assert not peer.session.busy
    peer.call(2_003, b"again")
    assert peer.messages[-1] == b"again"


def test_a_reset_in_mid_message_ends_one_call() -> None:
    peer = Peer()
    peer.call(1, b"whole")
    block = hpack.Encoder().encode(HEADERS)
    peer.say(encode_frame(FrameType.HEADERS, END_HEADERS, 3, block))
    peer.say(encode_frame(FrameType.DATA, 0, 3, b"\0\0\0\0\x09half"))
    peer.say(encode_reset(3, ErrorCode.CANCEL))
    peer.say(encode_reset(1, ErrorCode.CANCEL))
    assert [call.path for call in peer.cancelled_calls] == ["/m", "/m"]
    peer.calls[0].send(b"nobody listens")
    assert not [1 for kind, *_ in peer.heard() if kind == FrameType.DATA]
    peer.say(encode_frame(FrameType.DATA, 0, 3, b"late"))
    assert not peer.session.finished


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (encode_frame(FrameType.DATA, 0, 9, b"x"), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameType.DATA, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameType.HEADERS, END_HEADERS, 2, b"\x82"), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameType.HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff"), ErrorCode.COMPRESSION_ERROR),
        (encode_frame(FrameType.HEADERS, 0, 1, b"\x82") + encode_frame(FrameType.PING, 0, 0, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameType.CONTINUATION, 0, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameType.PING, 0, 0, b"x"), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(FrameType.SETTINGS, 0, 0, b"x"), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(FrameType.WINDOW_UPDATE, 0, 0, b"x"), ErrorCode.FRAME_SIZE_ERROR),
        (encode_window_update(0, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
        (encode_window_update(0, 0), ErrorCode.FLOW_CONTROL_ERROR),
        (encode_frame(FrameType.RST_STREAM, 0, 7, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(FrameType.PUSH_PROMISE, 0, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (encode_settings({Setting.MAX_FRAME_SIZE: 1}), ErrorCode.PROTOCOL_ERROR),
    ],
)  # fmt: skip
def test_a_fault_of_the_connection_ends_it_with_its_code(data: bytes, code: ErrorCode) -> None:
    peer = Peer()
    peer.say(data)
    assert peer.fault() is code


def test_calls_that_cannot_be_served_are_told_so() -> None:
    peer = Peer(message_bytes_max=100)
    peer.call(1, b"", [*HEADERS[:1], (":path", "/nowhere"), HEADERS[2]])
    assert peer.status_of(1)["grpc-status"] == str(int(GrpcStatus.UNIMPLEMENTED))
    peer.call(3, b"x" * 101)
    assert peer.status_of(3)["grpc-status"] == str(int(GrpcStatus.RESOURCE_EXHAUSTED))
    peer.call(5, b"", [(":method", "GET"), *HEADERS[1:]])
    assert peer.heard()[-1][:3] == (FrameType.RST_STREAM, 0, 5)
    peer.call(7, b"fine")
    assert peer.messages == [b"fine"]


def test_the_end_of_the_broker_is_announced_and_calls_are_finished() -> None:
    peer = Peer()
    peer.call(1, b"x")
    peer.heard()
    peer.session.drain()
    assert peer.heard()[0][0] == FrameType.GOAWAY
    assert not peer.session.finished
    peer.calls[0].send(b"answer")
    peer.calls[0].finish()
    assert peer.session.finished


@given(st.binary(max_size=300))
def test_garbage_never_hurts(data: bytes) -> None:
    peer = Peer()
    peer.say(data)
    peer.session.closed()
    assert peer.is_closed


@given(st.text(max_size=300), st.text(max_size=300))
def test_literal_headers(name: str, value: str) -> None:
    decoded = hpack.Decoder().decode(literal(name, value), raw=True)
    assert [(bytes(one), bytes(two)) for one, two in decoded] == [(name.encode(), value.encode())]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20S", 20), ("1500m", 1.5), ("2M", 120), ("", None), ("S", None), ("x1S", None), ("123456789S", None)],
)
def test_timeouts(text: str, seconds: float | None) -> None:
    assert parse_timeout(text) == seconds
