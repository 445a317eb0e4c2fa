"""Messages out of the records of a stored batch; `batch_underway` is the other direction. Compiled where it can be.

Records that follow each other often have the same headers: then their messages share one block.
"""

from __future__ import annotations

from typing import Any

from mainstem.wire.errors import BufferUnderflow, InvalidVarint, MalformedBytes, MalformedRecords
from mainstem.wire.messages.message import Message
from mainstem.wire.record_batch import LOG_APPEND_TIME, BatchHeader
from mainstem.wire.record_batch.record import open_batch
from mainstem.wire.varint import VARLONG_BITS, continue_varint, decode_varint, wrap_int64

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import same_at


NO_HEADERS = b"\0"
NULL_SIZE = 1
"""Length -1 before zigzag is undone: a value, never a name."""
_VARINT_BITS, _VARLONG_BITS = 32, 64


def decode_messages(batch: bytes | memoryview, lane: Any) -> list[Message]:
    """The records of a stored batch. Raises InvalidBatch."""
    header, body = open_batch(batch)
    return decode_opened(header, bytes(body), lane)


def decode_opened(header: BatchHeader, body: bytes, lane: Any) -> list[Message]:
    """The same of a batch that was opened."""
    try:
        if cython.compiled:
            return RecordReader(body).messages(header, lane)
        return _decode(header, body, lane)
    except IndexError:
        raise MalformedRecords("the batch ends inside a record") from None
    except MalformedBytes as fact:
        raise MalformedRecords(str(fact)) from None


class RecordReader:
    """Goes through records byte by byte: for the compiler. As Python, `_decode` is the faster way to the same."""

    __slots__ = ("_at", "_body", "_end")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0
        self._end = len(body)

    def messages(self, header: BatchHeader, lane: Any) -> list[Message]:
        """All of the batch with this header. Raises MalformedBytes, IndexError."""
        base_offset, base_timestamp = header.base_offset, header.base_timestamp
        is_stamped = bool(header.attributes & LOG_APPEND_TIME)
        stamp = header.max_timestamp
        count = header.record_count
        found: list[Message] = []
        last = base_offset - 1
        headers, headers_size = NO_HEADERS, 1
        body = self._body
        data = body
        while count > 0:
            count -= 1
            size = self._varint(_VARINT_BITS) >> 1
            end = self._at + size
            self._at += 1
            delta = self._varint(_VARLONG_BITS)
            raw = self._varint(_VARINT_BITS)
            offset = base_offset + (raw >> 1)
            if offset <= last or raw & 1:
                raise MalformedRecords(f"offset {offset} after {last}")
            last = offset
            key = self._piece()
            value = self._piece()
            at = self._at
            if not at < end <= self._end:
                raise MalformedRecords(f"the fields of a record end at {at}, the record at {end}")
            if end - at != headers_size or not same_at(data, at, headers, headers_size):
                self._check_headers(end)
                headers, headers_size = body[at:end], end - at
            message = Message.__new__(Message)
            message.lane = lane
            message.offset = offset
            message.timestamp_ms = stamp if is_stamped else base_timestamp + ((delta >> 1) ^ -(delta & 1))
            message.key = key
            message.headers = headers
            message.value = b"" if value is None else value
            found.append(message)
            self._at = end
        return found

    def _varint(self, bits: int) -> int:
        """The next one, as it stands: zigzag is the caller's."""
        data = self._body
        at, end = self._at, self._end
        value = 0
        shift = 0
        while shift < bits:
            if at >= end:
                raise BufferUnderflow("the buffer ends inside a varint")
            byte = data[at]
            at += 1
            if bits - shift < 7 and (byte & 0x7F) >> (bits - shift):
                break
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._at = at
                return value
            shift += 7
        raise InvalidVarint(f"a varint has more than {bits} bits")

    def _piece(self) -> bytes | None:
        """Bytes with their length before them."""
        raw = self._varint(_VARINT_BITS)
        if raw & 1:
            return None
        start = self._at
        self._at += raw >> 1
        return self._body[start : self._at]

    def _check_headers(self, end: int) -> None:
        """Whether the entries end where the block does; who decodes it later relies on that."""
        raw = self._varint(_VARINT_BITS)
        fields = 2 * (raw >> 1)
        if raw & 1 or fields > 2 * (end - self._at):
            raise MalformedRecords(f"{raw} headers in {end - self._at} bytes")
        field = 0
        while field < fields:
            raw = self._varint(_VARINT_BITS)
            if not raw & 1:
                self._at += raw >> 1
            elif raw != 1 or not field & 1:
                raise MalformedRecords("a header of negative length")
            field += 1
        if self._at != end:
            raise MalformedRecords(f"the headers of a record end at {self._at}, the record at {end}")


def _decode(header: BatchHeader, body: bytes, lane: Any) -> list[Message]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    stamped = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    messages: list[Message] = []
    position, last = 0, base_offset - 1
    known = NO_HEADERS
    for _ in range(header.record_count):
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        end = position + (raw >> 1)
        raw = body[position + 1]
        position += 2
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw, VARLONG_BITS)
        timestamp = wrap_int64(base_timestamp + ((raw >> 1) ^ -(raw & 1))) if stamped is None else stamped
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        offset = base_offset + (raw >> 1)
        if offset <= last or raw & 1:
            raise MalformedRecords(f"offset {offset} after {last}")
        last = offset
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        key = None
        if not raw & 1:
            key = body[position : position + (raw >> 1)]
            position += raw >> 1
        raw = body[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(body, position, raw)
        value = b""
        if not raw & 1:
            value = body[position : position + (raw >> 1)]
            position += raw >> 1
        if not position < end <= len(body):
            raise MalformedRecords(f"the fields of a record end at {position}, the record at {end}")
        headers = body[position:end]
        if headers != known:
            _check_headers(headers)
            known = headers
        messages.append(Message(lane, offset, timestamp, key, known, value, 0))
        position = end
    return messages


def _check_headers(block: bytes) -> None:
    """Whether the entries end where the block does; who decodes it later relies on that."""
    count, position = decode_varint(block, 0)
    size = len(block)
    if not 0 <= count <= size:
        raise MalformedRecords(f"{count} headers in {size} bytes")
    for field in range(2 * count):
        raw = block[position]
        position += 1
        if raw > 0x7F:
            raw, position = continue_varint(block, position, raw)
        if not raw & 1:
            position += raw >> 1
        elif raw != NULL_SIZE or not field & 1:
            raise MalformedRecords("a header of negative length")
    if position != size:
        raise MalformedRecords(f"the headers of a record end at {position} of {size}")
