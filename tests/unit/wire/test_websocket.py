"""The server's side of RFC 6455, with an echo carried in it; and a client that others have written."""

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import OP_BINARY, OP_CLOSE, OP_PONG, OP_TEXT, Frame
from websockets.http11 import Response
from websockets.uri import parse_uri

from mainstem.wire.websocket.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, masked
from mainstem.wire.websocket.handshake import HandshakeRefused, Upgrade
from mainstem.wire.websocket.session import WebSocketLimits, WebSocketSession

HEAD = (
    "GET /x HTTP/1.1",
    "Host: a",
    "Upgrade: WebSocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


class Echo:
    """A session that says what it hears, three bytes at a time where it is told to be slow."""

    def __init__(self, wanted: int = 1) -> None:
        self.input_wanted: int | None = wanted
        self.finished = self.busy = False
        self.events: list[str] = []
        self._wanted = wanted
        self._output: list[bytes] = []

    def data_received(self, data: memoryview) -> int:
        used = len(data) // self._wanted * self._wanted
        if used:
            self._output.append(bytes(data[:used]))
        return used

    def take_output(self) -> Sequence[bytes]:
        output, self._output = self._output, []
        return output

    def input_ended(self) -> None:
        self.finished = True

    def output_paused(self) -> None:
        self.events.append("paused")

    def output_resumed(self) -> None:
        self.events.append("resumed")

    def time_passed(self, now: float) -> None:
        self.events.append("time")

    def drain(self) -> None:
        self.finished = True

    def closed(self) -> None:
        self.events.append("closed")


def opened(
    carried: Echo | None = None,
    *,
    is_text: bool = False,
) -> WebSocketSession:
    limits = WebSocketLimits(message_bytes_max=1_000)
    session = WebSocketSession(lambda: None, limits, lambda wake, chosen, upgrade: carried or Echo(), is_text=is_text)
    assert feed(session, request(*HEAD)).startswith(b"HTTP/1.1 101 ")
    return session


def request(*lines: str) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode()


def feed(session: WebSocketSession, data: bytes) -> bytes:
    session.data_received(memoryview(bytearray(data)))
    return b"".join(session.take_output())


def frame(opcode: int, content: bytes = b"", *, is_final: bool = True, mask: bytes = b"\1\2\3\4") -> bytes:
    size = len(content)
    length = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes((opcode | 0x80 * is_final,)) + length + mask + masked(content, mask)


def test_the_example_of_the_standard() -> None:
    session = WebSocketSession(lambda: None, WebSocketLimits(), lambda *_: Echo(), ["superchat", "chat"])
    answer = feed(session, request(*HEAD, "Sec-WebSocket-Protocol: chat, superchat"))
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    assert b"Sec-WebSocket-Protocol: chat\r\n" in answer, "the client's preference"
    assert feed(session, b"\x82\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58") == b"\x82\x05Hello"


def without(name: str, *added: str) -> bytes:
    return request(*[line for line in HEAD if not line.startswith(name)], *added)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (without("GET", "x"), 400),
        (b"POST /x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n", 400),
        (without("Host"), 400),
        (without("Upgrade"), 426),
        (without("Connection"), 426),
        (without("Sec-WebSocket-Version"), 426),
        (without("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8"), 426),
        (without("Sec-WebSocket-Key"), 400),
        (without("Sec-WebSocket-Key", "Sec-WebSocket-Key: c2hvcnQ="), 400),
        (without("Sec-WebSocket-Key", "Sec-WebSocket-Key: not base64"), 400),
        (request(*HEAD, "no colon"), 400),
        (request(*HEAD, " folded: x"), 400),
        (request(*HEAD, "Sec-WebSocket-Protocol: other"), 400),
        (b"\xff\xfe\x00 / HTTP/1.1\r\n\r\n", 400),
        (b"G" * 9_000, 431),
    ],
)
def test_a_request_that_is_none_is_refused(head: bytes, status: int) -> None:
    session = WebSocketSession(lambda: None, WebSocketLimits(), lambda *_: Echo(), ["chat"])
    answer = feed(session, head)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert (b"Sec-WebSocket-Version: 13" in answer) is (status == 426)
    assert session.finished


def test_whoever_opens_the_carried_session_may_refuse() -> None:
    def refuse(wake: Callable[[], None], chosen: str | None, upgrade: Upgrade) -> Echo:
        raise HandshakeRefused(404, f"nothing at {upgrade.path}")

    session = WebSocketSession(lambda: None, WebSocketLimits(), refuse)
    assert feed(session, request(*HEAD)).startswith(b"HTTP/1.1 404 Not Found")
    assert session.finished


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x82\x01x", 1002),  # not masked
        (bytes((0xC2, 0x80)) + b"abcd", 1002),  # a reserved bit
        (frame(3), 1002),
        (frame(11), 1002),
        (frame(CONTINUATION, b"x"), 1002),
        (frame(BINARY, b"x", is_final=False) + frame(BINARY, b"y"), 1002),
        (frame(PING, b"x", is_final=False), 1002),
        (b"\x89\xfe\x00\x7eabcd", 1002),  # a long ping
        (b"\x82\xfe\x00\x7dabcd", 1002),  # a length in too many bytes
        (b"\x82\xff" + (65_535).to_bytes(8, "big") + b"abcd", 1002),
        (b"\x82\xff" + (1 << 63).to_bytes(8, "big") + b"abcd", 1002),
        (frame(TEXT, b"x"), 1003),
        (b"\x82\xfe\x03\xe9abcd", 1009),
        (frame(BINARY, bytes(600), is_final=False) + frame(CONTINUATION, bytes(401)), 1009),
        (frame(CLOSE), 1000),
        (frame(CLOSE, b"\x03\xe9bye"), 1001),
        (frame(CLOSE, b"\x0f\xa0"), 4000),
        (frame(CLOSE, b"\x03"), 1002),
        (frame(CLOSE, b"\x03\xed"), 1002),  # 1005 is never sent
        (frame(CLOSE, b"\x03\xe7"), 1002),
        (frame(CLOSE, b"\x03\xe8\xff"), 1007),
    ],
)
def test_how_it_ends(data: bytes, code: int) -> None:
    session = opened()
    answer = feed(session, data)
    at = answer.rindex(b"\x88")
    assert int.from_bytes(answer[at + 2 : at + 4], "big") == code
    assert session.finished
    assert feed(session, frame(BINARY, b"more")) == b""


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Short ones, as the server sends them."""
    while data:
        yield data[0] & 15, data[2 : 2 + data[1]]
        data = data[2 + data[1] :]


def test_a_session_of_text_takes_bytes_too() -> None:
    session = opened(is_text=True)
    assert list(messages(feed(session, frame(BINARY, b"\xff") + frame(TEXT, b"a")))) == [
        (BINARY, b"\xff"),
        (TEXT, b"a"),
    ]


def test_text_is_utf_8_across_frames() -> None:
    content = "grün €".encode()
    for cut in range(1, len(content)):
        session = opened(is_text=True)
        data = frame(TEXT, content[:cut], is_final=False) + frame(CONTINUATION, content[cut:])
        heard = feed(session, data)
        assert not session.finished
        parts = list(messages(heard))
        assert b"".join(part for _, part in parts) == content
        for opcode, part in parts:  # what the carried session says is text where it is UTF-8
            assert opcode == (TEXT if part.decode("utf-8", "ignore").encode() == part else BINARY)
    for wrong in (frame(TEXT, b"\xff"), frame(TEXT, content[:3])):
        session = opened(is_text=True)
        assert b"\x88" in feed(session, wrong)
        assert session.finished


def test_a_ping_is_answered_between_the_frames_of_a_message() -> None:
    session = opened(Echo(4))
    data = frame(BINARY, b"ab", is_final=False) + frame(PING, b"?") + frame(PONG, b"!") + frame(CONTINUATION, b"cd")
    assert feed(session, data) == b"\x8a\x01?" + b"\x82\x04abcd"


def test_while_the_carried_session_wants_nothing_no_frame_is_read() -> None:
    carried = Echo()
    session = opened(carried)
    carried.input_wanted = None
    data = frame(BINARY, b"x")
    assert session.data_received(memoryview(bytearray(data))) == 0
    assert session.input_wanted is None
    carried.input_wanted = 1
    assert session.input_wanted == 2, "the least that a frame is"
    assert feed(session, data) == b"\x82\x01x"


def test_the_carried_session_hears_all_events() -> None:
    carried = Echo()
    session = opened(carried)
    session.output_paused()
    session.output_resumed()
    session.time_passed(1.0)
    session.drain()
    assert session.finished
    assert b"".join(session.take_output()) == b"\x88\x02\x03\xe9"
    session.closed()
    assert carried.events == ["paused", "resumed", "time", "closed"]


def test_a_request_that_does_not_come_ends() -> None:
    woken: list[bool] = []
    session = WebSocketSession(lambda: woken.append(True), WebSocketLimits(), lambda *_: Echo())
    session.time_passed(0.0)
    assert not session.finished
    session.time_passed(11.0)
    assert session.finished
    assert woken


@given(
    content=st.binary(max_size=900),
    cuts=st.lists(st.integers(0, 900), max_size=6),
    splits=st.lists(st.integers(0, 2_000), max_size=6),
    wanted=st.integers(1, 5),
    mask=st.binary(min_size=4, max_size=4),
)
def test_any_fragments_split_anywhere_are_one_stream_of_bytes(
    content: bytes, cuts: list[int], splits: list[int], wanted: int, mask: bytes
) -> None:
    places = sorted({min(cut, len(content)) for cut in cuts} | {0})
    pieces = [content[first:after] for first, after in zip(places, [*places[1:], len(content)], strict=True)]
    data = b"".join(
        frame(CONTINUATION if at else BINARY, piece, is_final=at == len(pieces) - 1, mask=mask)
        for at, piece in enumerate(pieces)
    )
    session = opened(Echo(wanted))
    client = ClientProtocol(parse_uri("ws://a/"))
    client.state = client.state.OPEN
    heard = b""
    unconsumed = bytearray()
    ends = sorted(min(split, len(data)) for split in splits)
    for first, after in zip([0, *ends], [*ends, len(data)], strict=True):
        unconsumed += data[first:after]
        del unconsumed[: session.data_received(memoryview(bytearray(unconsumed)))]
        heard += b"".join(session.take_output())
    assert not unconsumed
    client.parser = client.parse()
    next(client.parser)
    client.receive_data(heard)
    messages = b"".join(event.data for event in client.events_received() if isinstance(event, Frame))
    assert messages == content[: len(content) // wanted * wanted]


@pytest.mark.parametrize("is_text", [False, True])
def test_a_client_of_others_is_served(is_text: bool) -> None:
    session = WebSocketSession(lambda: None, WebSocketLimits(), lambda *_: Echo(), ["mqtt"], is_text=is_text)
    client = ClientProtocol(parse_uri("ws://localhost/mqtt"), subprotocols=["v12.stomp", "mqtt"])  # type: ignore[list-item]
    client.send_request(client.connect())

    def talk() -> list[object]:
        for sent in client.data_to_send():
            if sent:
                client.receive_data(feed(session, sent))
        return list(client.events_received())

    (response,) = talk()
    assert isinstance(response, Response)
    assert client.handshake_exc is None
    assert client.subprotocol == "mqtt"
    send, opcode = (client.send_text, OP_TEXT) if is_text else (client.send_binary, OP_BINARY)
    content = b"x" * 200_000
    send(content)
    said = talk()
    assert {event.opcode for event in said if isinstance(event, Frame)} == {opcode}
    assert b"".join(event.data for event in said if isinstance(event, Frame)) == content
    client.send_ping(b"?")
    (pong,) = talk()
    assert isinstance(pong, Frame)
    assert (pong.opcode, pong.data) == (OP_PONG, b"?")
    client.send_close(1000, "done")
    (close,) = talk()
    assert isinstance(close, Frame)
    assert close.opcode == OP_CLOSE
    assert client.close_rcvd is not None
    assert client.close_rcvd.code == 1000
    assert session.finished
