"""Frames, escapes, destinations and properties: what is written is read again, in every version, from any pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.protocols.stomp.codec.escapes import V1_0, V1_1, V1_2, VERSIONS, is_sayable
from mainstem.protocols.stomp.codec.frames import FrameReader, Head, decode_head, encode_frame
from mainstem.protocols.stomp.errors import MalformedFrame, StompError
from mainstem.protocols.stomp.mapping.destinations import Destination, parse_destination, write_destination
from mainstem.protocols.stomp.mapping.properties import read_properties, write_properties
from mainstem.protocols.stomp.session.settings import StompSettings

LIMITS = StompSettings(head_bytes_max=4_096, message_bytes_max=500)
texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
versions = st.sampled_from(VERSIONS)
frames = st.tuples(st.sampled_from(["SEND", "MESSAGE", "ACK"]), st.dictionaries(texts, texts, max_size=5), st.binary())


class Sink:
    def __init__(self) -> None:
        self.frames: list[tuple[str, dict[str, str], bytes]] = []

    def frame_received(self, head: Head, body: bytes) -> bool:
        headers = {name: value for name, value in head.headers.items() if name != "content-length"}
        self.frames.append((head.command, headers, body))
        return False


def reader(version: str) -> tuple[FrameReader, Sink]:
    sink = Sink()
    found = FrameReader(sink, LIMITS)
    found.speak(version, LIMITS)
    return found, sink


@given(version=versions, some=st.lists(frames, max_size=4), cuts=st.lists(st.integers(0, 2_000), max_size=6))
def test_frames_are_read_as_they_were_written_wherever_they_are_split(
    version: str, some: list[tuple[str, dict[str, str], bytes]], cuts: list[int]
) -> None:
    data = b"".join(encode_frame(command, headers.items(), body[:400], version) for command, headers, body in some)
    read, sink = reader(version)
    waiting = b""
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        waiting += data[begin:end]
        waiting = waiting[read.read(memoryview(waiting)) :]
    assert waiting == b""
    expected = [
        (
            command,
            {
                name: value.lstrip(" ") if version == V1_0 else value
                for name, value in headers.items()
                if is_sayable(name, value, version) and name != "content-length"
            },
            body[:400],
        )
        for command, headers, body in some
    ]
    assert [(command, headers, body) for command, headers, body in sink.frames] == expected


@given(version=versions, name=texts, value=texts)
def test_no_header_can_end_a_frame_or_add_a_line(version: str, name: str, value: str) -> None:
    head, empty, _ = encode_frame("MESSAGE", [(name, value), ("last", "x")], b"", version).partition(b"\n\n")
    assert empty
    assert b"\0" not in head
    assert head.count(b"\n") == 1 + is_sayable(name, value, version)


@pytest.mark.parametrize(
    ("version", "line", "value"),
    [
        (V1_0, b"a:  b\\n:c ", "b\\n:c "),
        (V1_1, b"a: b\\nc\\cd\\\\", " b\nc:d\\"),
        (V1_1, b"a:x\ry\r", "x\ry"),
        (V1_2, b"a:b\\r\\n\r", "b\r\n"),
        (V1_2, "a:ü€𝄞".encode(), "ü€𝄞"),
    ],
)
def test_each_version_has_its_escapes(version: str, line: bytes, value: str) -> None:
    assert decode_head(b"SEND\n" + line, version, 10).headers["a"] == value


@pytest.mark.parametrize(
    ("version", "head"),
    [
        (V1_1, b"SEND\na:\\t"),
        (V1_1, b"SEND\na:\\r"),
        (V1_2, b"SEND\na:x\\"),
        (V1_2, b"SEND\na:x\ry"),
        (V1_2, b"SEND\nno colon"),
        (V1_2, b"SEND\n:no name"),
        (V1_2, b"SEND\na:\xff"),
        (V1_2, b"S\xc3\xa4ND"),
        (V1_2, b"SEND\na:\0"),
        (V1_2, b"SEND\ncontent-length:1e3"),
        (V1_2, b"SEND\ncontent-length:99999999999999999999"),
    ],
)
def test_what_is_no_frame_is_refused(version: str, head: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_head(head, version, 10)


def test_the_first_of_equal_headers_counts_and_connect_is_not_escaped() -> None:
    assert decode_head(b"SEND\na:1\na:2", V1_2, 10).headers == {"a": "1"}
    assert decode_head(b"CONNECT\npasscode:a\\cb", V1_2, 10).headers == {"passcode": "a\\cb"}


def test_bodies_end_where_they_say() -> None:
    for data in (b"SEND\ncontent-length:2\n\nabc\0", b"SEND\ncontent-length:501\n\n", b"SEND\n\n" + b"x" * 501):
        read, _ = reader(V1_2)
        with pytest.raises(StompError):
            read.read(memoryview(data))


@given(exchange=texts, key=texts)
def test_destinations_are_read_as_they_are_written(exchange: str, key: str) -> None:
    destination = parse_destination(write_destination(exchange, key)) if key or exchange else None
    if destination is not None:
        assert (destination.exchange, destination.routing_key) == (exchange, key)


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("/queue/a%2Fb", Destination("queue", "a/b")),
        ("plain", Destination("queue", "plain")),
        ("/topic/a.*.#", Destination("topic", "a.*.#")),
        ("/exchange/e", Destination("exchange", "e")),
        ("/exchange/e/k", Destination("exchange", "e", "k")),
        ("/amq/queue/q", Destination("amqqueue", "q")),
        ("/temp-queue/t", Destination("temp_queue", "t")),
        ("/reply-queue/a/b", Destination("reply_queue", "a/b")),
    ],
)
def test_destinations_are_rabbitmqs(text: str, destination: Destination) -> None:
    assert parse_destination(text) == destination


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Invalid destination"),
        ("/queue", "Invalid destination"),
        ("/queue/", "Invalid destination"),
        ("/queue/a/b", "Invalid destination"),
        ("/exchange//k", "Invalid destination"),
        ("/exchange/a/b/c", "Invalid destination"),
        ("/queue/%ff", "Invalid destination"),
        ("/queue/" + "x" * 256, "Invalid destination"),
        ("/nowhere/x", "Unknown destination"),
        ("/queues", "Unknown destination"),
    ],
)
def test_other_destinations_are_refused(text: str, message: str) -> None:
    with pytest.raises(StompError) as refusal:
        parse_destination(text)
    assert refusal.value.message == message


def test_properties_come_back_as_headers() -> None:
    headers = {
        "content-type": "text/plain",
        "correlation-id": "c",
        "amqp-message-id": "m",
        "priority": "5",
        "expiration": "1000",
        "persistent": "true",
        "own": "ü",
    }
    given_headers = headers | {"destination": "/queue/a", "receipt": "r", "content-length": "1", "transaction": "t"}
    assert dict(write_properties(read_properties(given_headers))) == headers


@pytest.mark.parametrize("headers", [{"priority": "256"}, {"priority": "x"}, {"timestamp": "-1"}, {"message-id": "a"}])
def test_properties_of_the_wrong_kind_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(StompError):
        read_properties(headers)
