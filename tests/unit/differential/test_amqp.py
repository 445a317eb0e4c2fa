"""AMQP: the same frames read, the same deliveries written, the same properties taken or left to the long way."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainstem.protocols.amqp.codec.field_table import Field
from mainstem.protocols.amqp.codec.framing import HEARTBEAT_FRAME, METHOD, encode_content, encode_frame
from mainstem.protocols.amqp.codec.methods import encode_method
from mainstem.protocols.amqp.codec.properties import encode_properties
from mainstem.protocols.amqp.mapping.envelope import encode_address
from tests.support.both_ways import both_ways, outcome

READERS = both_ways("mainstem.protocols.amqp.codec.framing")
DELIVERIES = both_ways("mainstem.protocols.amqp.handlers.deliver.frames")
MESSAGES = both_ways("mainstem.wire.messages.message")
SEALS = both_ways("mainstem.protocols.amqp.mapping.quick_seal")

PAYLOAD_MAX, MESSAGE_MAX = 64, 300


# Reading


class Recorder:
    """A channel and a sink that write down what the reader calls."""

    def __init__(self, stops: list[bool]) -> None:
        self.told: list[tuple[Any, ...]] = []
        self._stops = stops

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any) -> bool:
            self.told.append((name, *arguments))
            return len(self.told) < len(self._stops) and self._stops[len(self.told)]

        return called

    def is_closing(self, channel: int) -> bool:
        return channel == 3


def method(name: str, channel: int, **arguments: Any) -> bytes:
    return encode_frame(METHOD, channel, encode_method(name, **arguments))


def message(key: str, body: bytes, channel: int, mode: int) -> bytes:
    content = encode_content(channel, encode_properties({"delivery_mode": mode}), body, PAYLOAD_MAX)
    return method("basic.publish", channel, routing_key=key) + content


CHANNELS = st.integers(1, 3)
TAGS = st.integers(0, 3) | st.integers(0, (1 << 63) - 1)
FRAMES = st.one_of(
    st.builds(
        message,
        st.sampled_from("ab"),
        st.binary(max_size=3) | st.binary(min_size=60, max_size=70) | st.just(b"x" * (MESSAGE_MAX + 1)),
        CHANNELS,
        st.integers(1, 2),
    ),
    st.builds(lambda body, count: message("a", body, 1, 1) * count, st.binary(max_size=9), st.integers(2, 9)),
    st.builds(method, st.just("basic.ack"), CHANNELS, delivery_tag=TAGS, multiple=st.booleans()),
    st.builds(method, st.just("basic.nack"), CHANNELS, delivery_tag=TAGS, requeue=st.booleans()),
    st.builds(method, st.just("basic.qos"), CHANNELS, prefetch_count=st.integers(0, 9)),
    st.builds(encode_frame, st.integers(0, 9), st.integers(0, 3), st.binary(max_size=20)),
    st.just(HEARTBEAT_FRAME),
)


def read(framing: Any, content: bytes, cuts: list[int], stops: list[bool]) -> object:
    recorder = Recorder(stops)
    reader = framing.FrameReader(dict.fromkeys((1, 2), recorder), recorder, MESSAGE_MAX)
    reader.payload_bytes_max = PAYLOAD_MAX
    kept = b""
    seen: list[object] = []
    edges = [0, *cuts, len(content)]
    for start, end in zip(edges, edges[1:], strict=False):
        kept += content[start:end]
        while True:
            result = outcome(reader.read, kept)
            seen.append((result, reader.wanted, reader.stopped))
            if not isinstance(result, int):
                return seen, recorder.told
            kept = kept[result:]
            if not reader.stopped:
                break
    return seen, recorder.told


@given(st.lists(FRAMES, max_size=12).map(b"".join), st.lists(st.booleans(), max_size=40), st.data())
def test_frames_are_read_the_same(content, stops, data):
    if content and data.draw(st.integers(0, 2)) == 0:
        at = data.draw(st.integers(0, len(content) - 1))
        content = content[:at] + bytes([data.draw(st.integers(0, 255))]) + content[at + 1 :]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=4)))
    compiled, python = (read(way, content, cuts, stops) for way in READERS)
    assert compiled == python


# Writing


HEADERS = (b"\0", b"\1a", b"\2bc")
KINDS = st.tuples(
    st.sampled_from(HEADERS), st.integers(0, 1), st.binary(max_size=4) | st.just(b"x" * 3_000), st.booleans()
)


def template(made: Any) -> tuple[bytes, bytes, bool] | None:
    if made.headers == HEADERS[2]:
        return None
    size = str(len(made.value)).encode()
    return made.headers, size + b"+" if made.deliveries else size, made.headers == HEADERS[0]


@given(st.lists(KINDS, max_size=30), st.integers(1, 1 << 62), st.integers(1, 3))
def test_deliveries_are_the_same(kinds, tag, times):
    found = []
    for way in range(2):
        messages = []
        for headers, deliveries, value, viewed in kinds:
            made = MESSAGES[way].Message(None, 0, 0, None, headers, memoryview(value) if viewed else value, 0)
            made.deliveries = deliveries
            messages.append(made)
        frames = DELIVERIES[way].DeliveryFrames(template, lambda made, tag: b"<%d %d>" % (tag, len(made.value)))
        found.append([bytes(frames.encode(messages, tag)) for _ in range(times)])
    assert found[0] == found[1]


# Properties


TEXTS = st.text(max_size=40).filter(lambda text: len(text.encode()) < 256)
FIELDS = st.recursive(
    st.one_of(
        st.builds(Field, st.just("long"), st.integers(-(1 << 63), (1 << 63) - 1)),
        st.builds(Field, st.just("unsignedbyte"), st.integers(0, 255)),
        st.builds(Field, st.just("double"), st.floats(allow_nan=False)),
        st.builds(Field, st.just("bool"), st.booleans()),
        st.builds(Field, st.just("longstr"), st.binary(max_size=200)),
        st.builds(Field, st.just("binary"), st.binary(max_size=20)),
        st.just(Field("void", None)),
    ),
    lambda inner: st.one_of(
        st.builds(Field, st.just("array"), st.lists(inner, max_size=3)),
        st.builds(Field, st.just("table"), st.dictionaries(TEXTS, inner, max_size=3)),
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(("a", "CC", "amqp.type", "mainstem-key", "amqp", "x" * 200)) | TEXTS
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("content_type", "content_encoding", "correlation_id", "message_id", "type", "app_id", "cluster_id"), TEXTS
        ),
        "reply_to": TEXTS | st.just("amq.rabbitmq.reply-to.x"),
        "expiration": st.just("5"),
        "headers": st.dictionaries(NAMES, FIELDS, max_size=4),
        "delivery_mode": st.integers(0, 255),
        "priority": st.integers(0, 255),
        "timestamp": st.integers(0, (1 << 64) - 1),
    },
)


@given(PROPERTIES, st.data())
def test_properties_are_taken_the_same(properties, data):
    encoded = bytearray(encode_properties(properties))
    for _ in range(data.draw(st.sampled_from((0, 0, 0, 1, 2)))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    encoded = bytes(encoded[: data.draw(st.just(None) | st.integers(0, len(encoded)))])
    found = []
    for way in SEALS:
        quick = way.QuickSeal()
        sealed = outcome(quick.seal, *encode_address("exchange", "key"), encoded)
        found.append((sealed, quick.delivery_mode, quick.priority, outcome(quick.is_whole, encoded)))
    assert found[0] == found[1]
