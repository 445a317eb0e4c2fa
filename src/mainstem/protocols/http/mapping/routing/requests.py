"""Requests and replies as they are sent and shown."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.queues import decode_headers
from mainstem.broker.requests import Reply
from mainstem.protocols.http.mapping.contents import Content, decode_content
from mainstem.protocols.http.mapping.records.contents import show_value
from mainstem.protocols.http.mapping.records.documents import Header, PartitionNumber, RecordWish

TIMEOUT_MS_DEFAULT = 10_000
TIMEOUT_MS_MAX = 60_000
OWN_PREFIXES = ("amqp.", "mainstem-")


class RequestQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where, and for how long."""

    namespace: str = DEFAULT_NAMESPACE
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=TIMEOUT_MS_MAX)] = TIMEOUT_MS_DEFAULT


class RequestWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request: one of `value`, `text` and `base64`."""

    key: Content = None
    value: msgspec.Raw | UnsetType = UNSET
    text: str | None = None
    base64: str | None = None
    headers: dict[str, Content] | list[Header] = {}
    partition: PartitionNumber | None = None

    def record(self) -> RecordWish:
        """What is published."""
        return RecordWish(
            key=self.key,
            value=self.value,
            text=self.text,
            base64=self.base64,
            headers=self.headers,
            partition=self.partition,
        )


class ReplyDocument(msgspec.Struct, frozen=True):
    """A reply: one of `value`, `text` and `base64` is there."""

    correlation_id: str
    time_ms: int
    key: Content
    value: msgspec.Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    headers: dict[str, Content] = {}


def describe_reply(reply: Reply) -> ReplyDocument:
    """For the client that asked."""
    message = reply.message
    value, text, encoded = show_value(bytes(message.value))
    headers = {
        name: decode_content(content)
        for name, content in decode_headers(message.headers)
        if not name.startswith(OWN_PREFIXES)
    }
    return ReplyDocument(
        correlation_id=reply.correlation,
        time_ms=message.timestamp_ms,
        key=decode_content(message.key),
        value=value,
        text=text,
        base64=encoded,
        headers=headers,
    )
