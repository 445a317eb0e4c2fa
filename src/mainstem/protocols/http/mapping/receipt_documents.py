"""Messages that a client takes from a queue for a time, and what it says became of them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from mainstem.broker.dead_letters.browsing import Where as MessagePlace
from mainstem.broker.subscriptions.receipts import Receipt
from mainstem.protocols.http.mapping.contents import Content, decode_content, decode_header_block
from mainstem.protocols.http.mapping.queue_documents import encode_place, is_internal
from mainstem.protocols.http.mapping.records.contents import show_value

RECEIVE_MAX = 1_000
SETTLE_MAX = 10_000
LEASE_MS_MAX = 43_200_000
REST_MS_MAX = 2_592_000_000

LeaseMs = Annotated[int, msgspec.Meta(ge=100, le=LEASE_MS_MAX, description="How long the messages are the client's.")]


class ReceiveWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many messages, for how long."""

    max: Annotated[int, msgspec.Meta(ge=1, le=RECEIVE_MAX)] = 10
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=30_000, description="Wait for a message, if none is there.")] = 0
    lease_ms: LeaseMs = 30_000


class ReceivedMessage(msgspec.Struct, frozen=True):
    """A message, which is the client's until its lease ends."""

    receipt: str
    place: str
    """LANE:OFFSET."""
    time_ms: int
    lease_until_ms: int
    deliveries: int
    """How often it was given out, this time included."""
    failures: int
    """How often it was given back as failed, or its lease ended."""
    key: Content
    value: msgspec.Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    headers: dict[str, Content] = {}


class Received(msgspec.Struct, frozen=True):
    """Messages to work on."""

    messages: list[ReceivedMessage]


class RetryWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Give it out again, after a time or as the queue's retry policy says."""

    receipt: str
    after_ms: Annotated[int, msgspec.Meta(ge=0, le=REST_MS_MAX)] = 0
    error: str = ""


class RejectWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Give it up: a dead letter, where the queue has a place for them."""

    receipt: str
    reason: str = ""


class RenewWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Work on it for longer, from now on."""

    receipt: str
    lease_ms: LeaseMs = 30_000


class SettleWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of messages, by their receipts."""

    accept: Annotated[list[str], msgspec.Meta(max_length=SETTLE_MAX)] = []
    retry: Annotated[list[RetryWish], msgspec.Meta(max_length=SETTLE_MAX)] = []
    reject: Annotated[list[RejectWish], msgspec.Meta(max_length=SETTLE_MAX)] = []
    renew: Annotated[list[RenewWish], msgspec.Meta(max_length=SETTLE_MAX)] = []


class SettledDocument(msgspec.Struct, frozen=True):
    """What was done."""

    done: int
    unknown: list[str]
    """Receipts that are good no more: settled before, or their lease ended. Those messages are given out again."""


def describe_receipt(receipt: Receipt, opaque: frozenset[str]) -> ReceivedMessage:
    """A message for the client that takes it."""
    message = receipt.message
    value, text, encoded = show_value(bytes(message.value))
    headers = decode_header_block(message.headers)
    return ReceivedMessage(
        receipt=receipt.id,
        place=encode_place(MessagePlace(message.lane.number, message.offset)),
        time_ms=message.timestamp_ms,
        lease_until_ms=receipt.until_ms,
        deliveries=message.deliveries + 1,
        failures=message.failures,
        key=decode_content(message.key),
        value=value,
        text=text,
        base64=encoded,
        headers={name: content for name, content in headers.items() if not is_internal(name, opaque)},
    )
