"""JSON bodies of requests, as structs; unknown fields are passed over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode

T = TypeVar("T")


class SubscriptionData(
    msgspec.Struct, rename={"sub_string": "subString", "expression_type": "expressionType", "sub_version": "subVersion"}
):
    """A topic that a consumer reads, and what it wants of it."""

    topic: str
    sub_string: str = "*"
    expression_type: str | None = None
    sub_version: int = 0


class ConsumerData(
    msgspec.Struct,
    rename={
        "group": "groupName",
        "consume_type": "consumeType",
        "model": "messageModel",
        "start": "consumeFromWhere",
        "subscriptions": "subscriptionDataSet",
    },
):
    """One consumer of a client."""

    group: str
    consume_type: str = "CONSUME_PASSIVELY"
    model: str = "CLUSTERING"
    start: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: list[SubscriptionData] = []


class ProducerData(msgspec.Struct, rename={"group": "groupName"}):
    """One producer of a client."""

    group: str


class Heartbeat(
    msgspec.Struct,
    rename={"client_id": "clientID", "consumers": "consumerDataSet", "producers": "producerDataSet"},
):
    """What a client says about itself, again and again."""

    client_id: str
    consumers: list[ConsumerData] = []
    producers: list[ProducerData] = []


class MessageQueue(msgspec.Struct, frozen=True, rename={"broker": "brokerName", "queue": "queueId"}):
    """One queue of a topic."""

    topic: str
    broker: str
    queue: int


class LockWish(msgspec.Struct, rename={"group": "consumerGroup", "client_id": "clientId", "queues": "mqSet"}):
    """Queues that a consumer wants for itself."""

    group: str
    client_id: str
    queues: list[MessageQueue] = []


_BARE_KEY = re.compile(rb"([{,]\s*)(-?\d+)(\s*:)")


def decode_document(body: bytes, kind: type[T]) -> T:
    """Raises RequestRefused."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            # Some clients write integer keys without quotes.
            return msgspec.json.decode(_BARE_KEY.sub(rb'\1"\2"\3', body), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the body cannot be read: {error}") from None


def encode_offset_table(table: Mapping[MessageQueue, Any], **more: Any) -> bytes:
    """A map whose keys are queues. Java's library writes a key as an object without quotes, and reads nothing else."""
    entries = b",".join(msgspec.json.encode(queue) + b":" + msgspec.json.encode(row) for queue, row in table.items())
    rest = b"".join(b"," + msgspec.json.encode({name: value})[1:-1] for name, value in more.items())
    return b'{"offsetTable":{' + entries + b"}" + rest + b"}"


def encode_document(document: Any) -> bytes:
    """As JSON."""
    return msgspec.json.encode(document)
