"""Messages of Pulsar as records, and records as messages.

A message is a record: payload is value, key is key, properties are headers under their names. What no other protocol has is in
one header, in front of the others: the place of the message in its batch, and what remains of the metadata. A batch is
stored decompressed, so that every client can read it. What cannot be opened, because it is encrypted or a chunk, is one record.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from mainstem.broker.queues import Message, decode_headers, find_header
from mainstem.protocols.pulsar.codec.batches import decompress, join, split
from mainstem.protocols.pulsar.codec.frames import Entry, encode_entry
from mainstem.protocols.pulsar.codec.schema import METADATA, SINGLE, decode
from mainstem.protocols.pulsar.errors import MalformedFrame

MARK = "mainstem-pulsar"
"""The header that only this protocol writes."""
DELIVER_AT = "mainstem-pulsar-deliver-at"
"""Not before when consumers of shared subscriptions are given the message: ms since 1970, in decimal digits."""
MARK_BYTES, DELIVER_AT_BYTES = MARK.encode(), DELIVER_AT.encode()
BINARY = "mainstem-base64:"
"""Begins a property that stands for a header whose content is no text."""
FIELDS_OF_MARK = 4
"""Number, or of a message alone its permits; size of the batch; metadata that all its messages share; metadata of this one."""
NUMBER_DIGITS_MAX = 10
BATCH_MESSAGES_MAX = 100_000
"""Of one entry."""
OTHERS = "mainstem"
"""Who has published what comes from other protocols."""


class SentRecord(NamedTuple):
    """One message on its way into a batch."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int


class Place(NamedTuple):
    """Where a message stands: its number in its batch, and how many that has; 0: it is alone."""

    number: int
    size: int
    permits: int = 1
    """How many messages it is for its consumer: an encrypted batch is one record."""


ALONE = Place(0, 0)


def _fields(message: Message) -> list[bytes] | None:
    """Of the mark; None: another protocol has written the message."""
    mark = find_header(message.headers, MARK_BYTES)
    fields = [] if mark is None else mark.split(b":")
    is_sound = len(fields) == FIELDS_OF_MARK and all(
        one.isdigit() and len(one) < NUMBER_DIGITS_MAX for one in fields[:2]
    )
    return fields if is_sound else None


def place_of_message(message: Message) -> Place:
    """Where it stands."""
    fields = _fields(message)
    if fields is None:
        return ALONE
    number, size = int(fields[0]), int(fields[1])
    if not size:
        return Place(0, 0, min(max(number, 1), BATCH_MESSAGES_MAX))
    return Place(number, size) if number <= message.offset and number < size <= BATCH_MESSAGES_MAX else ALONE


def unit_of(message: Message) -> tuple[int, int]:
    """The first and the last offset of the entry that it belongs to."""
    place = place_of_message(message)
    first = message.offset - place.number
    return first, first + max(place.size, 1) - 1


def due_ms_of(message: Message) -> int:
    """Not before when it is given out; 0: at once."""
    if DELIVER_AT_BYTES not in message.headers:
        return 0
    text = find_header(message.headers, DELIVER_AT_BYTES) or b""
    return int(text) if text.isdigit() and len(text) < 16 else 0


def ordering_key_of(message: Message) -> bytes | None:
    """By what messages are kept in order for one consumer."""
    fields = _fields(message)
    if fields is not None:
        with contextlib.suppress(MalformedFrame):
            metadata, single = _envelope(fields)
            ordering: bytes = (metadata if single is None else single).ordering_key
            return ordering or message.key
    return message.key


# In


def is_opaque(metadata: Any) -> bool:
    """Whether the payload stays as it was sent."""
    return bool(metadata.encryption_keys) or metadata.num_chunks_from_msg > 1


def records_of(entry: Entry, bytes_max: int) -> list[SentRecord]:
    """The records of an entry, of which it is one batch. Raises MalformedFrame."""
    metadata, payload = entry.metadata, entry.payload
    if is_opaque(metadata):
        permits = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 1
        if not 0 < permits <= BATCH_MESSAGES_MAX:
            raise MalformedFrame(f"{permits} messages in one batch; at most {BATCH_MESSAGES_MAX}")
        return [_record(metadata, None, metadata, permits, 0, bytes(payload))]
    body = decompress(metadata.compression, payload, metadata.uncompressed_size, bytes_max)
    rest = METADATA()
    rest.CopyFrom(metadata)
    for name in ("compression", "uncompressed_size", "num_messages_in_batch"):
        rest.ClearField(name)
    if not metadata.HasField("num_messages_in_batch"):
        return [_record(metadata, None, rest, 0, 0, body)]
    count = metadata.num_messages_in_batch
    if count > BATCH_MESSAGES_MAX:
        raise MalformedFrame(f"{count} messages in one batch; at most {BATCH_MESSAGES_MAX}")
    rest.ClearField("properties")
    data = rest.SerializeToString()
    messages = split(body, count)
    shared = base64.b64encode(data)
    return [_record(single, shared, metadata, index, count, piece) for index, (single, piece) in enumerate(messages)]


def _record(described: Any, shared: bytes | None, metadata: Any, index: int, count: int, payload: bytes) -> SentRecord:
    """One message: what describes it becomes key, headers and time, and the rest of it goes into the mark."""
    headers: list[tuple[str, bytes | None]] = [(MARK, b"")]
    due_ms = metadata.deliver_at_time
    if due_ms > 0:
        headers.append((DELIVER_AT, b"%d" % due_ms))
    for entry in described.properties:
        if entry.key not in (MARK, DELIVER_AT):
            headers.append((entry.key, _content(entry.value)))
    key = None
    if described.HasField("partition_key"):
        key = described.partition_key.encode()
        if described.partition_key_b64_encoded:
            key = _unbase64(key)
    time_ms = described.event_time or metadata.event_time or metadata.publish_time
    value = None if described.null_value else payload
    described.ClearField("properties")
    described.ClearField("partition_key")
    if shared is None:
        rest, single = metadata if metadata is not described else described, b""
        rest.ClearField("properties")
        rest.ClearField("partition_key")
        shared = base64.b64encode(rest.SerializeToString())
    else:
        described.ClearField("payload_size")
        single = base64.b64encode(described.SerializeToString())
    headers[0] = (MARK, b"%d:%d:%b:%b" % (index, count, shared, single))
    return SentRecord(key, value, headers, min(time_ms, (1 << 63) - 1))


def _content(text: str) -> bytes:
    if text.startswith(BINARY):
        try:
            return base64.b64decode(text[len(BINARY) :], validate=True)
        except (binascii.Error, ValueError):
            pass
    return text.encode()


def _unbase64(key: bytes) -> bytes:
    try:
        return base64.b64decode(key, validate=True)
    except binascii.Error:
        return key


# Out


def _envelope(fields: Sequence[bytes]) -> tuple[Any, Any | None]:
    """Raises MalformedFrame."""
    _, size, shared, single = fields
    metadata = decode(METADATA, _bytes(shared))
    return metadata, decode(SINGLE, _bytes(single)) if size != b"0" else None


def _bytes(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise MalformedFrame("the mark of a message is no base64") from None


def entry_of(messages: Sequence[Message]) -> bytes:
    """The entry that these messages of one batch are of. Those that are missing have no content in it."""
    fields = _fields(messages[0])
    if fields is None:
        return _foreign_entry(messages[0])
    try:
        return _own_entry(messages, fields)
    except MalformedFrame:
        return _foreign_entry(messages[0])  # Another protocol has written a header of this name.


def _own_entry(messages: Sequence[Message], fields: Sequence[bytes]) -> bytes:
    first, count = messages[0], place_of_message(messages[0]).size
    metadata, single = _envelope(fields)
    if single is None or not count:
        _describe(metadata, first)
        metadata.uncompressed_size = metadata.uncompressed_size or len(first.value)
        return encode_entry(metadata.SerializeToString(), first.value)
    metadata.num_messages_in_batch = count
    parts: list[tuple[Any, bytes | memoryview]] = [(SINGLE(payload_size=0, compacted_out=True), b"")] * count
    for message in messages:
        fields = _fields(message) or fields
        single = decode(SINGLE, _bytes(fields[3]))
        _describe(single, message)
        single.payload_size = len(message.value)
        parts[place_of_message(message).number] = (single, message.value)
    payload = join(parts)
    metadata.uncompressed_size = len(payload)
    return encode_entry(metadata.SerializeToString(), payload)


def _describe(described: Any, message: Message) -> None:
    """Key and properties of a record."""
    if message.key is not None:
        _set_key(described, message.key)
    for name, content in decode_headers(message.headers):
        if name not in (MARK, DELIVER_AT):
            described.properties.add(key=name, value=_text(content))


def _set_key(described: Any, key: bytes) -> None:
    if not described.partition_key_b64_encoded:
        try:
            described.partition_key = key.decode()
            return
        except UnicodeDecodeError:
            described.partition_key_b64_encoded = True
    described.partition_key = base64.b64encode(key).decode()


def _text(content: bytes | None) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError:
        return BINARY + base64.b64encode(content or b"").decode()


def _foreign_entry(message: Message) -> bytes:
    """Of a record that another protocol has written."""
    time_ms = max(message.timestamp_ms, 0)
    metadata = METADATA(producer_name=OTHERS, sequence_id=message.offset, publish_time=time_ms)
    _describe(metadata, message)
    payload = message.value
    metadata.uncompressed_size = len(payload)
    return encode_entry(metadata.SerializeToString(), payload)
