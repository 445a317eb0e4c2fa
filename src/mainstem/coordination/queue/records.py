"""Messages out of the records of a v2 batch, and their headers; `batch_underway` is the other direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.coordination.queue.message import Message
from mainstem.wire.errors import MalformedBytes, MalformedRecords
from mainstem.wire.record_batch import LOG_APPEND_TIME, BatchHeader
from mainstem.wire.record_batch.encoding import NULL_LENGTH, varint_bytes
from mainstem.wire.record_batch.record import open_batch
from mainstem.wire.varint import VARLONG_BITS, continue_varint, decode_varint, encode_varint

if TYPE_CHECKING:
    from typing import Any

    from mainstem.coordination.queue.lane import Lane
    from mainstem.wire.record_batch import Headers

NO_HEADERS = b"\0"
TTL_HEADER = b"mainstem-ttl"
"""How long a record may wait in a queue, in ms, as decimal digits."""
TTL_DIGITS_MAX = 19
NULL_SIZE = 1
"""Length -1 before zigzag is undone: a value, never a name."""


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
