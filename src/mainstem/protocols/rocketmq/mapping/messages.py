"""Messages of RocketMQ as records, and records as messages.

Body is value, properties are headers under their names. The key is the sharding key, or the first of KEYS. Bodies are stored
decompressed, so that every client can read them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.records.publication import NewRecord
from mainstem.model.errors import InvalidBatch
from mainstem.protocols.rocketmq.codec.remoting.messages import StoredMessage
from mainstem.protocols.rocketmq.codec.remoting.properties import can_show
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.mapping.names import name_of, physical_offset
from mainstem.wire.compression import LZ4, ZSTD, decompress
from mainstem.wire.errors import DecompressedTooLarge
from mainstem.wire.record_batch import Record

TAGS, KEYS, UNIQUE_KEY, SHARDING_KEY = "TAGS", "KEYS", "UNIQ_KEY", "__SHARDINGKEY"
RECONSUME_TIMES, FLAG = "RECONSUME_TIME", "rocketmq-flag"
RETRY_TOPIC, ORIGIN_MESSAGE_ID, REAL_TOPIC = "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "REAL_TOPIC"
DELAY_LEVEL = "DELAY"
TIMER_DELIVER_MS, TIMER_DELAY_S, TIMER_DELAY_MS = "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"
IS_HALF = "TRAN_MSG"
REPLY_TO_CLIENT, CLUSTER = "REPLY_TO_CLIENT", "CLUSTER"
COMPRESSED, COMPRESSION_SHIFT, COMPRESSION_MASK = 1, 8, 7
PREPARED, TRANSACTION_MASK = 4, 12
_CODECS = {1: LZ4, 2: ZSTD}
_ZLIB = (0, 3)

NOT_STORED = frozenset(
    {
        "WAIT", CLUSTER, "MSG_REGION", "TRACE_ON", "POP_CK", "1ST_POP_TIME", "MIN_OFFSET", "MAX_OFFSET", DELAY_LEVEL,
        TIMER_DELIVER_MS, TIMER_DELAY_S, TIMER_DELAY_MS, "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS",
        "TIMER_ROLL_TIMES", "TIMER_DELETE_UNIQUE_KEY", IS_HALF, RECONSUME_TIMES, FLAG, "MAX_RECONSUME_TIMES",
    }
)  # fmt: skip
"""Properties that say how to treat a message, or where it was: they end with that."""


class Content(NamedTuple):
    """What a producer sent, as a record has it."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes | None]]


def decompressed(body: bytes, sys_flag: int, bytes_max: int) -> bytes:
    """The body itself. Raises RequestRefused."""
    if sys_flag & COMPRESSED:
        kind = sys_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK
        try:
            body = _unzip(body, bytes_max) if kind in _ZLIB else decompress(_CODECS[kind], body, bytes_max)
        except DecompressedTooLarge:
            raise too_large(bytes_max) from None
        except (KeyError, InvalidBatch, zlib.error):
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "the body cannot be decompressed") from None
    if len(body) > bytes_max:
        raise too_large(bytes_max)
    return body


def too_large(bytes_max: int) -> RequestRefused:
    """The refusal of a body."""
    return RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"the body has more than {bytes_max} bytes")


def _unzip(body: bytes, bytes_max: int) -> bytes:
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(body, bytes_max + 1)
    if len(found) > bytes_max:
        raise DecompressedTooLarge(f"more than {bytes_max} bytes")
    if not unpacking.eof:
        raise zlib.error("it ends too early")
    return found


def content_of(body: bytes, properties: Mapping[str, str], flag: int = 0, reconsume_times: int = 0) -> Content:
    """The record of a message."""
    headers: list[tuple[str, bytes | None]] = [
        (name, value.encode()) for name, value in properties.items() if name not in NOT_STORED
    ]
    if flag:
        headers.append((FLAG, str(flag).encode()))
    if reconsume_times:
        headers.append((RECONSUME_TIMES, str(reconsume_times).encode()))
    key = properties.get(SHARDING_KEY) or next(iter(properties.get(KEYS, "").split()), None)
    return Content(None if key is None else key.encode(), body, headers)


def new_record(content: Content, queue: int, born_ms: int, due_ms: int | None = None) -> NewRecord:
    """To be published."""
    return NewRecord(content.key, content.value, content.headers, queue, born_ms, due_ms)


class Shown(NamedTuple):
    """What RocketMQ can show of a record besides its body."""

    properties: dict[str, str]
    reconsume_times: int
    flag: int


def shown(record: Record) -> Shown:
    """The last of several headers wins; what is no text, or has bytes that separate properties, stays in the log."""
    properties: dict[str, str] = {}
    reconsume_times = flag = 0
    for name, value in record.headers:
        try:
            text = (value or b"").decode()
        except UnicodeDecodeError:
            continue
        if name == RECONSUME_TIMES:
            reconsume_times = _number(text)
        elif name == FLAG:
            flag = _number(text)
        elif name and can_show(name) and can_show(text):
            properties[name] = text
    if record.key and KEYS not in properties and SHARDING_KEY not in properties:
        try:
            key = record.key.decode()
        except UnicodeDecodeError:
            key = ""
        if key and can_show(key) and not any(map(str.isspace, key)):
            properties[KEYS] = key
    return Shown(properties, reconsume_times, flag)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def stored_message(topic: Topic, queue: int, record: Record, host: bytes) -> StoredMessage:
    """A record as consumers are given it."""
    properties, reconsume_times, flag = shown(record)
    at_ms = max(record.timestamp_ms, 0)
    return StoredMessage(
        name_of(topic),
        queue,
        record.offset,
        physical_offset(topic.logs[queue], record.offset),
        record.value or b"",
        properties,
        at_ms,
        at_ms,
        host,
        host,
        reconsume_times,
        flag,
    )
