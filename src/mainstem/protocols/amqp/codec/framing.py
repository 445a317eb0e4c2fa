"""Frames: what comes once per message, read in one pass over a receive buffer and written without a codec.

A message is published by a method frame, a header frame and body frames. Nearly always all of them lie in the buffer, one
behind the other: then they are read as one. Messages that follow each other and differ in their bodies only are handed over
as one run; those of one size begin with the same bytes, so that one comparison finds all that is before the body to be as
it was. What is incomplete or in several body frames is put together frame by frame, as are methods that carry no content.
Nothing is looked at twice, and nothing keeps the receive buffer: bodies are copied out. Compiled where it can be.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Protocol

from mainstem.protocols.amqp.errors import FatalFrameError, fail

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import i64_at, same_at, u16_at, u32_at

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
FRAME_BYTES_MIN = 8
"""Type, channel, size and end of an empty frame."""
FRAME_FUDGE_BYTES = 8
"""Quite a few clients count these eight wrongly; RabbitMQ lets them, and so do we."""
CONTENT_HEADER_BYTES = 12
"""Class, weight and body size, before the properties."""

HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"

_FRAME = struct.Struct(">BHI")
_CONTENT_PAYLOAD = struct.Struct(">HHQ")
_TAG = struct.Struct(">Q")
_IDENTITY = struct.Struct(">I")
_CONTENT = struct.Struct(">BHIIQ")
_METHOD, _HEADER, _BODY, _END, _EMPTY_BYTES, _CONTENT_BYTES = (
    METHOD,
    HEADER,
    BODY,
    FRAME_END,
    FRAME_BYTES_MIN,
    CONTENT_HEADER_BYTES,
)
"""C numbers where this is compiled, as all that begins so below."""
_BASIC = 60
_BASIC_WEIGHTLESS = _BASIC << 16
_PUBLISH, _ACK, _REJECT, _NACK = (_BASIC << 16 | method for method in (40, 80, 90, 120))
_TAGGED_BYTES = 13
"""basic.ack, basic.reject and basic.nack: method, delivery tag, one octet of bits."""


class ChannelPort(Protocol):
    """A channel, as far as frames go. Each answers whether to stop reading after it."""

    def publish(self, method: bytes, properties: bytes, bodies: list[bytes]) -> bool:
        """Messages, with the basic.publish and the encoded properties of all of them."""

    def acknowledge(self, tags: list[int]) -> bool:
        """basic.ack of single deliveries, one after the other."""

    def acknowledge_until(self, tag: int) -> bool:
        """basic.ack of all deliveries up to this one."""

    def reject(self, tag: int, bits: int) -> bool:
        """basic.reject."""

    def nack(self, tag: int, bits: int) -> bool:
        """basic.nack."""

    def refuse_size(self, body_bytes: int) -> bool:
        """A message is announced that is larger than allowed; its body will not be kept."""


class Sink(Protocol):
    """Where all other frames go."""

    def is_closing(self, channel: int) -> bool:
        """Whether the channel was closed from this side, which the peer may not know yet."""

    def method_received(self, channel: int, payload: bytes) -> bool:
        """A method without content, or one on a channel that is not open; answers whether to stop reading after it."""


class Assembly:
    """A message of which not all frames have come."""

    __slots__ = ("method", "missing", "parts", "properties")

    def __init__(self, method: bytes) -> None:
        self.method = method
        self.properties: bytes | None = None
        self.missing = 0
        self.parts: list[bytes] = []


class FrameReader:
    """Cuts what a connection receives into frames, and these into messages and methods."""

    __slots__ = (
        "_assemblies",
        "_bodies",
        "_body_size",
        "_channels",
        "_lead",
        "_message_bytes_max",
        "_method",
        "_number",
        "_properties",
        "_sink",
        "_tags",
        "payload_bytes_max",
        "stopped",
        "wanted",
    )

    def __init__(self, channels: Mapping[int, ChannelPort], sink: Sink, message_bytes_max: int) -> None:
        self.payload_bytes_max = 4096
        """Larger frames are refused; set when the size was negotiated."""
        self.wanted = FRAME_BYTES_MIN
        """With how many bytes the next frame is complete, or at least its size known."""
        self.stopped = False
        """Whether reading stopped before a frame that is complete."""
        self._channels = channels
        self._sink = sink
        self._message_bytes_max = message_bytes_max
        self._assemblies: dict[int, Assembly] = {}
        self._number = 0
        """The channel of the run."""
        self._method = b""
        self._properties = b""
        self._bodies: list[bytes] = []
        """The run: not handed over yet."""
        self._lead = b""
        """What stood before the body of the last message, as long as the same may follow."""
        self._body_size = 0
        self._tags: list[int] = []
        """Single deliveries of the channel of the run that are acknowledged: another kind of run. There is one at a time."""

    def read(self, buffer: bytes) -> int:
        """Deal with every complete frame, in order, until somebody says stop; answers how many bytes they were."""
        try:
            return self._read(buffer)
        finally:
            if self._bodies or self._tags:
                self._hand_over()

    def _read(self, buffer: bytes) -> int:  # noqa: C901 - the one loop over all that a connection receives
        position = 0
        size = len(buffer)
        data = buffer
        channels = self._channels
        payload_bytes_max = self.payload_bytes_max
        unpack_frame = _FRAME.unpack_from
        self.stopped = False
        while size - position >= _EMPTY_BYTES:
            lead = self._lead
            if lead and not self._tags:
                start = position + len(lead)
                end = start + self._body_size
                if end < size and data[end] == _END and same_at(data, position, lead, len(lead)):
                    self._bodies.append(buffer[start:end])
                    position = end + 1
                    continue
            if cython.compiled:
                kind, number, length = data[position], u16_at(data, position + 1), u32_at(data, position + 3)
            else:
                kind, number, length = unpack_frame(buffer, position)
            if length > payload_bytes_max:
                _refuse_size(kind, length, payload_bytes_max)
            start = position + 7
            end = start + length
            if end >= size:
                self.wanted = end + 1 - position
                return position
            if data[end] != _END:
                _refuse_end(kind, buffer[start:end], data[end])
            if kind == _METHOD and number in channels and number not in self._assemblies:
                if length < 4:
                    identity = 0
                elif cython.compiled:
                    identity = u32_at(data, start)
                else:
                    (identity,) = _IDENTITY.unpack_from(buffer, start)
                if identity == _PUBLISH:
                    position = self._read_message(buffer, position, end, size, number)
                    if self.stopped:
                        return self._stop(buffer, position)
                    continue
                if length == _TAGGED_BYTES and identity == _ACK and not data[start + 12] & 1:
                    if self._take_tag(number, buffer, start + 4):
                        return self._stop(buffer, position)
                    position = end + 1
                    continue
            if (self._bodies or self._tags) and self._hand_over():
                return self._stop(buffer, position)
            position = end + 1
            if self._read_frame(kind, number, buffer[start:end]):
                return self._stop(buffer, position)
            payload_bytes_max = self.payload_bytes_max  # Negotiated just now, perhaps.
        self.wanted = FRAME_BYTES_MIN
        return position

    def _stop(self, buffer: bytes, position: int) -> int:
        left = len(buffer) - position
        self.wanted = FRAME_BYTES_MIN
        self.stopped = False
        if left >= FRAME_BYTES_MIN:
            length = _FRAME.unpack_from(buffer, position)[2]
            self.stopped = left >= FRAME_BYTES_MIN + length or length > self.payload_bytes_max
        return position

    def forget(self, number: int) -> None:
        """A channel has ended; what it was sending is dropped."""
        self._assemblies.pop(number, None)
        self._lead = b""

    # -----------------------------------------------------------------------------------------------------------------

    def _hand_over(self) -> bool:
        """The run is complete; answers whether to stop after it."""
        channel = self._channels.get(self._number)
        bodies, tags = self._bodies, self._tags
        if tags:
            self._tags = []
            return channel is not None and channel.acknowledge(tags)
        if bodies:
            self._bodies = []
            return channel is not None and channel.publish(self._method, self._properties, bodies)
        return False

    def _read_message(self, buffer: bytes, position: int, method_end: int, size: int, number: int) -> int:
        """The message that a basic.publish begins, if it is all there, else the method alone; answers where that ends."""
        data = buffer
        first = position
        position = method_end + 1
        if size - position >= _EMPTY_BYTES + _CONTENT_BYTES + 2:
            if cython.compiled:
                kind, other, length = data[position], u16_at(data, position + 1), u32_at(data, position + 3)
                class_and_weight, body_size = u32_at(data, position + 7), i64_at(data, position + 11)
            else:
                kind, other, length, class_and_weight, body_size = _CONTENT.unpack_from(buffer, position)
            end = position + 7 + length
            if (
                kind == _HEADER
                and other == number
                and class_and_weight == _BASIC_WEIGHTLESS
                and _CONTENT_BYTES + 2 <= length <= self.payload_bytes_max
                and end < size
                and data[end] == _END
                and 0 <= body_size <= self._message_bytes_max
            ):
                properties_at, properties_end = position + 19, end
                position = end + 1
                if not body_size:
                    if self._take(number, buffer, first, method_end, properties_at, properties_end, b""):
                        return first
                    self._lead = b""
                    return position
                if size - position > 7:
                    if cython.compiled:
                        kind, other, length = data[position], u16_at(data, position + 1), u32_at(data, position + 3)
                    else:
                        kind, other, length = _FRAME.unpack_from(buffer, position)
                    start = position + 7
                    end = start + length
                    if (
                        kind == _BODY
                        and other == number
                        and length == body_size
                        and length <= self.payload_bytes_max
                        and end < size
                        and data[end] == _END
                    ):
                        body = buffer[start:end]
                        if self._take(number, buffer, first, method_end, properties_at, properties_end, body):
                            return first
                        self._lead = buffer[first:start]
                        self._body_size = body_size
                        return end + 1
        self._lead = b""
        self._assemblies[number] = Assembly(buffer[first + 7 : method_end])
        return method_end + 1

    def _take(
        self,
        number: int,
        buffer: bytes,
        first: int,
        method_end: int,
        properties_at: int,
        properties_end: int,
        body: bytes,
    ) -> bool:
        """One message more: of the run, or the first of another. Answers whether to stop before it."""
        method, properties = buffer[first + 7 : method_end], buffer[properties_at:properties_end]
        if self._tags or number != self._number or method != self._method or properties != self._properties:
            if self._hand_over():
                self.stopped = True
                return True
            self._number, self._method, self._properties = number, method, properties
        self._bodies.append(body)
        return False

    def _take_tag(self, number: int, buffer: bytes, at: int) -> bool:
        """One acknowledgement more: of the run, or the first of another. Answers whether to stop before it."""
        if (self._bodies or number != self._number) and self._hand_over():
            return True
        if number != self._number:
            self._number, self._method, self._lead = number, b"", b""
        data = buffer
        if cython.compiled:
            tag = i64_at(data, at)
        else:
            (tag,) = _TAG.unpack_from(buffer, at)
        self._tags.append(tag)
        return False

    def _take_verdict(self, identity: int, channel: ChannelPort, payload: bytes) -> bool:
        """An acknowledgement that is not one of a run; answers whether to stop after it."""
        tag = int.from_bytes(payload[4:12], "big")
        if identity == _ACK:
            return channel.acknowledge_until(tag) if payload[12] & 1 else channel.acknowledge([tag])
        return channel.nack(tag, payload[12]) if identity == _NACK else channel.reject(tag, payload[12])

    def _read_frame(self, kind: int, number: int, payload: bytes) -> bool:
        """What is not a part of a run."""
        if kind == HEARTBEAT:
            if number:
                _refuse_unexpected(kind, payload)
            return False
        if kind not in (METHOD, HEADER, BODY):
            fail(501, f"type {kind}, {_snippet(payload)}: unknown_frame")
        assembly = self._assemblies.get(number)
        if assembly is None:
            if kind == METHOD:
                identity = int.from_bytes(payload[:4], "big")
                channel = self._channels.get(number)
                if channel is not None and len(payload) == _TAGGED_BYTES and identity in (_ACK, _NACK, _REJECT):
                    return self._take_verdict(identity, channel, payload)
                return self._sink.method_received(number, payload)
            if self._sink.is_closing(number):
                return False
            fail(505, "expected method frame, got non method frame instead")
        if assembly.properties is None:
            return self._take_header(kind, number, payload, assembly)
        if kind != BODY:
            fail(505, "expected content body, got non content body frame instead")
        if len(payload) > assembly.missing:
            fail(501, "content body frame exceeds remaining content size")
        assembly.parts.append(payload)
        assembly.missing -= len(payload)
        return not assembly.missing and self._complete(number, assembly)

    def _take_header(self, kind: int, number: int, payload: bytes, assembly: Assembly) -> bool:
        if kind != HEADER:
            fail(505, "expected content header for class 60, got non content header frame instead")
        if len(payload) < CONTENT_HEADER_BYTES + 2:
            fail(501, "a content header is too short")
        class_id, weight, body_size = _CONTENT_PAYLOAD.unpack_from(payload)
        if class_id != _BASIC:
            fail(505, f"expected content header for class 60, got one for class {class_id} instead")
        if weight:
            fail(501, "the weight of a content header is not zero")
        if body_size > self._message_bytes_max:
            del self._assemblies[number]
            return self._channels[number].refuse_size(body_size)
        assembly.properties = payload[CONTENT_HEADER_BYTES:]
        assembly.missing = body_size
        return not body_size and self._complete(number, assembly)

    def _complete(self, number: int, assembly: Assembly) -> bool:
        del self._assemblies[number]
        channel = self._channels.get(number)
        assert assembly.properties is not None
        return channel is not None and channel.publish(assembly.method, assembly.properties, [b"".join(assembly.parts)])


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One frame."""
    return _FRAME.pack(kind, channel, len(payload)) + payload + b"\xce"


def encode_content(channel: int, properties: bytes, body: bytes | memoryview, payload_bytes_max: int) -> bytes:
    """Header and body frames of a message."""
    size = len(body)
    parts: list[bytes | memoryview] = [
        _FRAME.pack(HEADER, channel, CONTENT_HEADER_BYTES + len(properties)),
        _CONTENT_PAYLOAD.pack(_BASIC, 0, size),
        properties,
        b"\xce",
    ]
    for start in range(0, size, payload_bytes_max):
        piece = body[start : start + payload_bytes_max]
        parts += (_FRAME.pack(BODY, channel, len(piece)), piece, b"\xce")
    return b"".join(parts)


def _refuse_size(kind: int, length: int, payload_bytes_max: int) -> None:
    maximum = payload_bytes_max - FRAME_FUDGE_BYTES
    raise FatalFrameError(f"type {kind}, all octets = <<>>: {{frame_too_large,{length},{maximum}}}")


def _refuse_end(kind: int, payload: bytes, marker: int) -> None:
    raise FatalFrameError(f"type {kind}, {_snippet(payload)}: {{invalid_frame_end_marker,{marker}}}")


def _refuse_unexpected(kind: int, payload: bytes) -> None:
    fail(505, f"type {kind}, {_snippet(payload)}")


def _snippet(payload: bytes) -> str:
    """The beginning of a frame, in the notation of RabbitMQ's messages."""
    shown = payload[:16]
    octets = ",".join(map(str, shown))
    return f"{'all' if len(payload) <= 16 else 'first 16'} octets = <<{octets}>>"
