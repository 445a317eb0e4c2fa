"""Messages as records of a v2 batch, and back.

A record is: length, attributes, two deltas, then what does not depend on where it stands: key, value and headers. That last
part, the *content*, is encoded once, whatever the number of queues it goes to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.coordination.queue.message import Message
from mainstem.wire.errors import MalformedBytes, MalformedRecords
from mainstem.wire.record_batch import HEADER, HEADER_BYTES, LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC, BatchHeader
from mainstem.wire.record_batch.encoding import NULL_LENGTH, SMALL_VARINT_COUNT, SMALL_VARINTS, seal_batch, varint_bytes
from mainstem.wire.record_batch.record import open_batch
from mainstem.wire.varint import VARLONG_BITS, continue_varint, decode_varint, encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mainstem.coordination.queue.lane import Lane
    from mainstem.wire.record_batch import Headers

NO_HEADERS = b"\0"
TTL_HEADER = b"mainstem-ttl"
"""How long a record may wait in a queue, in ms, as decimal digits."""
TTL_DIGITS_MAX = 19
NULL_SIZE = 1
"""Length -1 before zigzag is undone: a value, never a name."""


def encode_content(key: bytes | None, headers: bytes, value: bytes | memoryview | None) -> bytes:
    """Key, value and encoded headers as they stand in a record."""
    size = -1 if value is None else len(value)
    value_size = NULL_LENGTH if size < 0 else SMALL_VARINTS[size] if size < SMALL_VARINT_COUNT else varint_bytes(size)
    if key is None:
        return b"".join((NULL_LENGTH, value_size, value or b"", headers))
    return b"".join((varint_bytes(len(key)), key, value_size, value or b"", headers))


def encode_headers(headers: Headers) -> bytes:
    """A block of headers: what `Message.headers` holds."""
    out = bytearray(varint_bytes(len(headers)))
    for name, content in headers:
        text = name.encode()
        encode_varint(out, len(text))
        out += text
        if content is None:
            out += NULL_LENGTH
        else:
            encode_varint(out, len(content))
            out += content
    return bytes(out)


def decode_headers(block: bytes) -> list[tuple[str, bytes | None]]:
    """The entries of a block, which was checked when it was read or made here."""
    count, position = decode_varint(block, 0)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = decode_varint(block, position)
        name = block[position : position + size].decode("utf-8", "replace")
        position += size
        size, position = decode_varint(block, position)
        if size < 0:
            headers.append((name, None))
        else:
            headers.append((name, block[position : position + size]))
            position += size
    return headers


def add_header(block: bytes, name: str, content: bytes) -> bytes:
    """The block with this header in place of any of the same name."""
    kept = [header for header in decode_headers(block) if header[0] != name]
    return encode_headers([*kept, (name, content)])


def ttl_of(headers: bytes) -> int:
    """What `mainstem-ttl` says; -1: nothing."""
    if TTL_HEADER not in headers:
        return -1
    for name, content in decode_headers(headers):
        if name == "mainstem-ttl" and content is not None and content.isdigit() and len(content) < TTL_DIGITS_MAX:
            return int(content)
    return -1


class BatchUnderway:
    """Records of one turn for one log, becoming a batch."""

    __slots__ = ("_body", "count", "lane", "messages", "refers", "size", "timestamp_ms")

    def __init__(self, lane: Lane[Any], timestamp_ms: int) -> None:
        self.lane = lane
        self.timestamp_ms = timestamp_ms
        self.count = 0
        self.messages: list[Message] | None = []
        """For the window of the lane; None when it has no room for all."""
        self.refers: Sequence[tuple[Lane[Any], list[Message] | None]] = ()
        """Further lanes that get the same records, by reference."""
        self.size = HEADER_BYTES
        """Bytes so far."""
        self._body = bytearray(HEADER_BYTES)

    def add(self, content: bytes) -> None:
        """One record more, of the batch's time."""
        count = self.count
        delta = SMALL_VARINTS[count] if count < SMALL_VARINT_COUNT else varint_bytes(count)
        size = len(content) + len(delta) + 2
        self._body += b"".join(
            (SMALL_VARINTS[size] if size < SMALL_VARINT_COUNT else varint_bytes(size), b"\0\0", delta, content)
        )
        self.size += size
        self.count = count + 1

    def seal(self) -> bytearray:
        """The batch."""
        batch, count, time = self._body, self.count, self.timestamp_ms
        HEADER.pack_into(
            batch, 0, 0, len(batch) - LOG_OVERHEAD, 0, MAGIC, 0, 0, count - 1, time, time, -1, -1, -1, count
        )
        seal_batch(batch)
        return batch


def decode_messages(batch: bytes | memoryview, lane: Lane[Any]) -> list[Message]:
    """The records of a stored batch. Raises InvalidBatch."""
    header, body = open_batch(batch)
    try:
        return _decode(header, bytes(body), lane)
    except IndexError:
        raise MalformedRecords("the batch ends inside a record") from None
    except MalformedBytes as fact:
        raise MalformedRecords(str(fact)) from None


def _decode(header: BatchHeader, body: bytes, lane: Lane[Any]) -> list[Message]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    stamped = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    messages: list[Message] = []
    position, last = 0, base_offset - 1
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
        timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1)) if stamped is None else stamped
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
        if headers != NO_HEADERS:
            _check_headers(headers)
        messages.append(Message(lane, offset, timestamp, key, headers, value, 0))
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
