"""Messages of one turn, becoming a v2 batch. Compiled where it can be.

A record is: length, attributes, two deltas, then what does not depend on where it stands: key, value and headers. That last
part, the *content*, is encoded once, whatever the number of queues it goes to. Messages that differ in their values only are
written in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mainstem.wire.record_batch import HEADER, HEADER_BYTES, LOG_OVERHEAD, MAGIC
from mainstem.wire.record_batch.encoding import NULL_LENGTH, SMALL_VARINT_COUNT, SMALL_VARINTS, seal_batch, varint_bytes

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import grow, put_bytes, put_varint, varint_size

if TYPE_CHECKING:
    from mainstem.wire.messages.message import Message

_LEAD = HEADER_BYTES


def encode_content(key: bytes | None, headers: bytes, value: bytes | memoryview | None) -> bytes:
    """Key, value and encoded headers as they stand in a record."""
    size = -1 if value is None else len(value)
    value_size = NULL_LENGTH if size < 0 else SMALL_VARINTS[size] if size < SMALL_VARINT_COUNT else varint_bytes(size)
    if key is None:
        return b"".join((NULL_LENGTH, value_size, value or b"", headers))
    return b"".join((varint_bytes(len(key)), key, value_size, value or b"", headers))


class BatchUnderway:
    """Records of one turn for one log, becoming a batch."""

    __slots__ = ("_body", "count", "is_shared", "lane", "messages", "refers", "timestamp_ms")

    def __init__(self, lane: Any, timestamp_ms: int) -> None:
        self.lane = lane
        self.timestamp_ms = timestamp_ms
        self.count = 0
        self.messages: list[Message] | None = []
        """For the window of the lane; None when it has no room for all. Shared: models, of which each lane takes copies."""
        self.is_shared = False
        """Whether it is for several lanes: stored once, by reference from the others."""
        self.refers: Sequence[Any] = ()
        """Those others."""
        self._body = bytearray(_LEAD)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return len(self._body)

    def add(self, content: bytes) -> None:
        """One record more, of the batch's time."""
        count = self.count
        delta = SMALL_VARINTS[count] if count < SMALL_VARINT_COUNT else varint_bytes(count)
        size = len(content) + len(delta) + 2
        self._body += b"".join(
            (SMALL_VARINTS[size] if size < SMALL_VARINT_COUNT else varint_bytes(size), b"\0\0", delta, content)
        )
        self.count = count + 1

    def add_all(self, key: bytes | None, headers: bytes, values: list[bytes], first: int, bytes_max: int) -> int:
        """Records with these values, from that one on until the batch is as large as it may be; answers where that was."""
        lead = NULL_LENGTH if key is None else varint_bytes(len(key)) + key
        body, count = self._body, self.count
        fixed = 2 + len(lead) + len(headers)
        number = first
        if cython.compiled:
            # Room for all of them at once: a buffer that grows record by record is moved again and again.
            at = after = len(body)
            while number < len(values) and after < bytes_max:
                value_size = len(values[number])
                size = fixed + varint_size(count + number - first) + varint_size(value_size) + value_size
                after += varint_size(size) + size
                number += 1
            grow(body, after - at)
            data = body
            while first < number:
                value = values[first]
                value_size = len(value)
                at = put_varint(data, at, fixed + varint_size(count) + varint_size(value_size) + value_size)
                data[at] = data[at + 1] = 0
                at = put_varint(data, at + 2, count)
                at = put_bytes(data, at, lead, len(lead))
                at = put_varint(data, at, value_size)
                at = put_bytes(data, at, value, value_size)
                at = put_bytes(data, at, headers, len(headers))
                count += 1
                first += 1
        else:
            while number < len(values) and len(body) < bytes_max:
                value = values[number]
                value_size = len(value)
                delta = SMALL_VARINTS[count] if count < SMALL_VARINT_COUNT else varint_bytes(count)
                length = SMALL_VARINTS[value_size] if value_size < SMALL_VARINT_COUNT else varint_bytes(value_size)
                size = fixed + len(delta) + len(length) + value_size
                total = SMALL_VARINTS[size] if size < SMALL_VARINT_COUNT else varint_bytes(size)
                body += b"".join((total, b"\0\0", delta, lead, length, value, headers))
                count += 1
                number += 1
        self.count = count
        return number

    def seal(self) -> bytearray:
        """The batch."""
        batch, count, time = self._body, self.count, self.timestamp_ms
        HEADER.pack_into(
            batch, 0, 0, len(batch) - LOG_OVERHEAD, 0, MAGIC, 0, 0, count - 1, time, time, -1, -1, -1, count
        )
        seal_batch(batch)
        return batch
