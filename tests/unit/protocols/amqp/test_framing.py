"""The frame reader: whatever is sent, in whatever pieces, the same messages come out."""

from typing import Any

import pamqp.body
import pamqp.commands
import pamqp.frame
import pamqp.header
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.protocols.amqp.codec.framing import (
    BODY,
    HEADER,
    HEARTBEAT_FRAME,
    METHOD,
    FrameReader,
    encode_content,
    encode_frame,
)
from mainstem.protocols.amqp.codec.methods import decode_method, encode_method
from mainstem.protocols.amqp.codec.properties import encode_properties
from mainstem.protocols.amqp.errors import ConnectionError_, FatalFrameError

PAYLOAD_MAX = 64
MESSAGE_MAX = 1_000


class Recorder:
    """A channel and a sink that write down what they are told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.runs: list[int] = []
        """How many messages, or acknowledgements, came at once."""
        self.stops = False
        self.closing: set[int] = set()

    def publish(self, method: bytes, properties: bytes, bodies: list[bytes]) -> bool:
        for body in bodies:
            self._tell("publish", decode_method(method)["routing_key"], properties, body)
        self.runs.append(len(bodies))
        return self.stops

    def acknowledge(self, tags: list[int]) -> bool:
        for tag in tags:
            self._tell("ack", tag, 0)
        self.runs.append(len(tags))
        return self.stops

    def acknowledge_until(self, tag: int) -> bool:
        return self._tell("ack", tag, 1)

    def reject(self, tag: int, bits: int) -> bool:
        return self._tell("reject", tag, bits)

    def nack(self, tag: int, bits: int) -> bool:
        return self._tell("nack", tag, bits)

    def refuse_size(self, body_bytes: int) -> bool:
        self.closing.add(1)  # As a session does.
        return self._tell("too large", body_bytes)

    def method_received(self, channel: int, payload: bytes) -> bool:
        return self._tell("method", channel, decode_method(payload).name)

    def is_closing(self, channel: int) -> bool:
        return channel in self.closing

    def _tell(self, *what: Any) -> bool:
        self.told.append(what)
        return self.stops


def method(name: str, channel: int = 1, **arguments: Any) -> bytes:
    return encode_frame(METHOD, channel, encode_method(name, **arguments))


def message(key: str, body: bytes, channel: int = 1, payload_max: int = PAYLOAD_MAX, **properties: Any) -> bytes:
    content = encode_content(channel, encode_properties(properties), body, payload_max)
    return method("basic.publish", channel, routing_key=key) + content


def reader_of(recorder: Recorder, channels: tuple[int, ...] = (1, 2)) -> FrameReader:
    reader = FrameReader(dict.fromkeys(channels, recorder), recorder, MESSAGE_MAX)
    reader.payload_bytes_max = PAYLOAD_MAX
    return reader


def read(*pieces: bytes) -> list[tuple[Any, ...]]:
    recorder = Recorder()
    reader = reader_of(recorder)
    kept = b""
    for piece in pieces:
        kept += piece
        kept = kept[reader.read(kept) :]
    assert kept == b""
    return recorder.told


CONVERSATION = (
    message("a", b"one")
    + message("a", b"two")
    + message("a", b"three")
    + message("a", b"seven")
    + message("a", b"")
    + message("a", b"seven", channel=2)
    + message("a", b"eight", channel=2)
    + message("a", b"nine!", channel=2, delivery_mode=2)
    + method("basic.ack", delivery_tag=1)
    + method("basic.ack", delivery_tag=2)
    + method("basic.ack", 2, delivery_tag=1)
    + message("a", b"after", channel=2)
    + method("basic.ack", 2, delivery_tag=2)
    + message("a", b"again", channel=2)
    + method("basic.ack", delivery_tag=7, multiple=True)
    + message("b", b"x" * 150, delivery_mode=2)
    + HEARTBEAT_FRAME
    + message("c", b"", content_type="t")
    + method("basic.nack", delivery_tag=2**63, multiple=True, requeue=True)
    + method("basic.reject", delivery_tag=3, requeue=True)
    + method("basic.qos", prefetch_count=5)
    + message("d", b"y" * PAYLOAD_MAX, channel=2)
    + method("connection.close", 0)
)
TOLD = [
    ("publish", "a", b"\0\0", b"one"),
    ("publish", "a", b"\0\0", b"two"),
    ("publish", "a", b"\0\0", b"three"),
    ("publish", "a", b"\0\0", b"seven"),
    ("publish", "a", b"\0\0", b""),
    ("publish", "a", b"\0\0", b"seven"),
    ("publish", "a", b"\0\0", b"eight"),
    ("publish", "a", b"\x10\0\x02", b"nine!"),
    ("ack", 1, 0),
    ("ack", 2, 0),
    ("ack", 1, 0),
    ("publish", "a", b"\0\0", b"after"),
    ("ack", 2, 0),
    ("publish", "a", b"\0\0", b"again"),
    ("ack", 7, 1),
    ("publish", "b", b"\x10\0\x02", b"x" * 150),
    ("publish", "c", b"\x80\0\x01t", b""),
    ("nack", 2**63, 3),
    ("reject", 3, 1),
    ("method", 1, "basic.qos"),
    ("publish", "d", b"\0\0", b"y" * PAYLOAD_MAX),
    ("method", 0, "connection.close"),
]


def test_frames_become_messages_and_methods() -> None:
    assert read(CONVERSATION) == TOLD


def test_every_split_point() -> None:
    for cut in range(len(CONVERSATION) + 1):
        assert read(CONVERSATION[:cut], CONVERSATION[cut:]) == TOLD, cut


def test_byte_by_byte() -> None:
    assert read(*(CONVERSATION[i : i + 1] for i in range(len(CONVERSATION)))) == TOLD


PARTS = st.one_of(
    st.builds(
        message,
        st.sampled_from("ab"),
        st.binary(max_size=3) | st.binary(min_size=60, max_size=70),
        channel=st.integers(1, 2),
        delivery_mode=st.integers(1, 2),
    ),
    st.builds(method, st.just("basic.ack"), st.integers(1, 2), delivery_tag=st.integers(0, 3), multiple=st.booleans()),
    st.just(HEARTBEAT_FRAME),
)


@given(parts=st.lists(PARTS, max_size=12), data=st.data())
def test_runs_do_not_change_what_is_told(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    edges = [0, *cuts, len(whole)]
    alone = [told for part in parts for told in read(part)]
    assert read(whole) == alone
    assert read(*(whole[a:b] for a, b in zip(edges, edges[1:], strict=False))) == alone


def test_what_is_alike_comes_at_once() -> None:
    recorder = Recorder()
    reader = reader_of(recorder)
    acks = b"".join(method("basic.ack", delivery_tag=tag) for tag in (1, 2, 3))
    reader.read(message("a", b"1") + message("a", b"22") + message("a", b"33") + message("b", b"4") + acks)
    assert recorder.runs == [3, 1, 3]


def test_what_came_before_something_wrong_counts() -> None:
    recorder = Recorder()
    good = message("a", b"1") + message("a", b"2")
    for bad in (
        encode_frame(9, 1, b""),
        message("a", b"3")[:-1] + b"\0",
        method("basic.ack", delivery_tag=1)[:-1] + b"\0",
    ):
        recorder.told.clear()
        with pytest.raises(ConnectionError_):
            reader_of(recorder).read(good + bad)
        assert [told[3] for told in recorder.told] == [b"1", b"2"]


def test_a_channel_that_ended_is_not_taken_for_open() -> None:
    recorder = Recorder()
    channels: dict[int, Any] = {1: recorder}
    reader = FrameReader(channels, recorder, MESSAGE_MAX)
    reader.read(message("a", b"1"))
    del channels[1]
    reader.forget(1)
    recorder.closing = {1}
    assert reader.read(message("a", b"2")) == len(message("a", b"2"))
    assert recorder.told == [("publish", "a", b"\0\0", b"1"), ("method", 1, "basic.publish")]


def test_reading_stops_behind_a_run() -> None:
    recorder = Recorder()
    recorder.stops = True
    reader = reader_of(recorder)
    run = message("a", b"1") + message("a", b"2")
    assert reader.read(run + method("basic.qos", prefetch_count=5)) == len(run)
    assert reader.stopped
    assert len(recorder.told) == 2


@given(cuts=st.lists(st.integers(0, len(CONVERSATION)), max_size=8))
def test_any_number_of_splits(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(CONVERSATION)]
    assert read(*(CONVERSATION[a:b] for a, b in zip(edges, edges[1:], strict=False))) == TOLD


def test_messages_of_two_channels_may_be_mixed_frame_by_frame() -> None:
    content_1 = encode_content(1, b"\0\0", b"1" * 100, PAYLOAD_MAX)
    content_2 = encode_content(2, b"\0\0", b"2" * 100, PAYLOAD_MAX)
    header_bytes = 8 + 14
    body_bytes = 8 + PAYLOAD_MAX
    pieces = [
        method("basic.publish", 1, routing_key="a"),
        method("basic.publish", 2, routing_key="b"),
        content_2[:header_bytes],
        content_1[:header_bytes],
        content_1[header_bytes : header_bytes + body_bytes],
        content_2[header_bytes : header_bytes + body_bytes],
        content_2[header_bytes + body_bytes :],
        method("basic.ack", 2, delivery_tag=1),
        content_1[header_bytes + body_bytes :],
    ]
    told = read(b"".join(pieces))
    assert told == [("publish", "b", b"\0\0", b"2" * 100), ("ack", 1, 0), ("publish", "a", b"\0\0", b"1" * 100)]


def test_reading_stops_when_told_and_goes_on_behind() -> None:
    recorder = Recorder()
    reader = reader_of(recorder)
    recorder.stops = True
    position = 0
    while position < len(CONVERSATION):
        told, runs = len(recorder.told), len(recorder.runs)
        position += reader.read(CONVERSATION[position:])
        assert len(recorder.told) == told + (recorder.runs[-1] if len(recorder.runs) > runs else 1)
        assert reader.stopped == (position < len(CONVERSATION))
    assert recorder.told == TOLD


def test_a_message_that_is_too_large_is_refused_by_its_header() -> None:
    recorder = Recorder()
    reader = reader_of(recorder)
    reader.read(message("a", b"x" * (MESSAGE_MAX + 1)))
    assert recorder.told[0] == ("too large", MESSAGE_MAX + 1)


def test_content_of_a_channel_that_we_closed_is_dropped() -> None:
    recorder = Recorder()
    reader = reader_of(recorder, channels=(1,))
    recorder.closing = {2}
    data = message("a", b"x" * 150, channel=2)
    assert reader.read(data) == len(data)
    assert recorder.told == [("method", 2, "basic.publish")]


REFUSED: dict[str, tuple[int, bytes]] = {
    "a frame that is too large": (501, b"\x01\0\x01\0\0\0\x41"),
    "a wrong end": (501, encode_frame(METHOD, 1, encode_method("tx.select"))[:-1] + b"\0"),
    "an unknown type": (501, encode_frame(9, 1, b"")),
    "a heartbeat on a channel": (505, encode_frame(8, 1, b"")),
    "a body out of nowhere": (505, encode_frame(BODY, 1, b"x")),
    "a method in the middle of a message": (505, method("basic.publish") + method("basic.ack", delivery_tag=1)),
    "a body instead of a header": (505, method("basic.publish") + encode_frame(BODY, 1, b"x")),
    "a header of another class": (
        505,
        method("basic.publish") + encode_frame(HEADER, 1, b"\0\x32\0\0" + bytes(8) + b"\0\0"),
    ),
    "a header that is too short": (501, method("basic.publish") + encode_frame(HEADER, 1, b"\0\x3c")),
    "a header with weight": (
        501,
        method("basic.publish") + encode_frame(HEADER, 1, b"\0\x3c\0\x01" + bytes(8) + b"\0\0"),
    ),
    "more body than announced": (
        501,
        method("basic.publish")
        + encode_frame(HEADER, 1, b"\0\x3c\0\0" + (1).to_bytes(8, "big") + b"\0\0")
        + encode_frame(BODY, 1, b"xy"),
    ),
    "a header before the body is complete": (
        505,
        method("basic.publish") + encode_frame(HEADER, 1, b"\0\x3c\0\0" + (1).to_bytes(8, "big") + b"\0\0") * 2,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused(what: str) -> None:
    code, data = REFUSED[what]
    with pytest.raises(ConnectionError_) as caught:
        reader_of(Recorder()).read(data + bytes(8))
    assert caught.value.code == code


def test_a_frame_that_is_too_large_is_refused_before_it_comes() -> None:
    reader = reader_of(Recorder())
    with pytest.raises(FatalFrameError, match="frame_too_large,65,56"):
        reader.read(b"\x01\0\x01\0\0\0\x41\0")
    assert reader.wanted <= PAYLOAD_MAX + 8


@given(body=st.binary(max_size=600), payload_max=st.integers(1, 300), properties=st.just({"content_type": "a"}))
def test_content_is_the_bytes_of_another_codec(body: bytes, payload_max: int, properties: dict[str, Any]) -> None:
    theirs = pamqp.frame.marshal(
        pamqp.header.ContentHeader(0, len(body), pamqp.commands.Basic.Properties(content_type="a")), 5
    )
    for start in range(0, len(body), payload_max):
        theirs += pamqp.frame.marshal(pamqp.body.ContentBody(body[start : start + payload_max]), 5)
    assert encode_content(5, encode_properties(properties), body, payload_max) == theirs


def test_the_wanted_size_is_the_frame() -> None:
    frame = method("basic.qos", prefetch_count=5)
    reader = reader_of(Recorder())
    for have in range(8, len(frame)):
        assert reader.read(frame[:have]) == 0
        assert reader.wanted == len(frame)
