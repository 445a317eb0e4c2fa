"""Frames: what comes once per message, read in one pass over a receive buffer and written without a codec.

A message is published by a method frame, a header frame and body frames. Nearly always all of them lie in the buffer, one
behind the other: then they are read as one. What is incomplete or in several body frames is put together frame by frame, as
are methods that carry no content. Nothing is looked at twice, and nothing keeps the receive buffer: bodies are copied out.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Protocol

from mainstem.protocols.amqp.errors import FatalFrameError, fail

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
_CONTENT = struct.Struct(">BHIHHQ")
_CONTENT_PAYLOAD = struct.Struct(">HHQ")
_TAG = struct.Struct(">Q")
_BASIC = 60
_PUBLISH = b"\x00\x3c\x00\x28"
_ACK = b"\x00\x3c\x00\x50"
_REJECT = b"\x00\x3c\x00\x5a"
_NACK = b"\x00\x3c\x00\x78"
_TAGGED = frozenset({_ACK, _REJECT, _NACK})
_TAGGED_BYTES = 13
"""basic.ack, basic.reject and basic.nack: method, delivery tag, one octet of bits."""


class ChannelPort(Protocol):
    """A channel, as far as frames go. Each answers whether to stop reading after it."""

    def publish(self, method: bytes, properties: bytes, body: bytes) -> bool:
        """A message, with its basic.publish and its encoded properties."""

    def acknowledge(self, tag: int, bits: int) -> bool:
        """basic.ack."""

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

    def read(self, buffer: bytes) -> int:  # noqa: C901 - the one loop over all that a connection receives
        """Deal with every complete frame, in order, until somebody says stop; answers how many bytes they were."""
        position = 0
        size = len(buffer)
        channels = self._channels
        payload_bytes_max = self.payload_bytes_max
        unpack_frame = _FRAME.unpack_from
        self.stopped = False
        while size - position >= FRAME_BYTES_MIN:
            kind, number, length = unpack_frame(buffer, position)
            if length > payload_bytes_max:
                _refuse_size(kind, length, payload_bytes_max)
            start = position + 7
            end = start + length
            if end >= size:
                self.wanted = end + 1 - position
                return position
            if buffer[end] != FRAME_END:
                _refuse_end(kind, buffer[start:end], buffer[end])
            position = end + 1
            if kind == METHOD and number in channels and number not in self._assemblies:
                identity = buffer[start : start + 4]
                if identity == _PUBLISH:
                    after = self._read_message(buffer, position, size, number, channels[number], buffer[start:end])
                    if after:
                        position = after
                        if self.stopped:
                            return self._stop(buffer, position)
                    continue
                if length == _TAGGED_BYTES and identity in _TAGGED:
                    (tag,) = _TAG.unpack_from(buffer, start + 4)
                    channel = channels[number]
                    if identity == _ACK:
                        stop = channel.acknowledge(tag, buffer[start + 12])
                    elif identity == _NACK:
                        stop = channel.nack(tag, buffer[start + 12])
                    else:
                        stop = channel.reject(tag, buffer[start + 12])
                else:
                    stop = self._sink.method_received(number, buffer[start:end])
            else:
                stop = self._read_frame(kind, number, buffer[start:end])
                payload_bytes_max = self.payload_bytes_max  # Negotiated just now, perhaps.
            if stop:
                return self._stop(buffer, position)
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

    # -----------------------------------------------------------------------------------------------------------------

    def _read_message(
        self, buffer: bytes, position: int, size: int, number: int, channel: ChannelPort, method: bytes
    ) -> int:
        """Header and body behind a basic.publish, if they are all there: answers where they end, otherwise 0."""
        if size - position >= 22:
            length: int
            kind, header_number, length, class_id, weight, body_size = _CONTENT.unpack_from(buffer, position)
            end = position + 7 + length
            if (
                kind == HEADER
                and header_number == number
                and class_id == _BASIC
                and not weight
                and CONTENT_HEADER_BYTES + 2 <= length <= self.payload_bytes_max
                and end < size
                and buffer[end] == FRAME_END
                and body_size <= self._message_bytes_max
            ):
                properties = buffer[position + 19 : end]
                position = end + 1
                if not body_size:
                    self.stopped = channel.publish(method, properties, b"")
                    return position
                if size - position > 7:
                    kind, body_number, length = _FRAME.unpack_from(buffer, position)
                    start = position + 7
                    end = start + length
                    if (
                        kind == BODY
                        and body_number == number
                        and length == body_size
                        and length <= self.payload_bytes_max
                        and end < size
                        and buffer[end] == FRAME_END
                    ):
                        self.stopped = channel.publish(method, properties, buffer[start:end])
                        return end + 1
        self._assemblies[number] = Assembly(method)
        return 0

    def _read_frame(self, kind: int, number: int, payload: bytes) -> bool:
        """What is not a method of an open channel between two messages."""
        if kind == HEARTBEAT:
            if number:
                _refuse_unexpected(kind, payload)
            return False
        if kind not in (METHOD, HEADER, BODY):
            fail(501, f"type {kind}, {_snippet(payload)}: unknown_frame")
        assembly = self._assemblies.get(number)
        if assembly is None:
            if kind == METHOD:
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
        return channel is not None and channel.publish(assembly.method, assembly.properties, b"".join(assembly.parts))


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
