"""Headers of SEND and MESSAGE <-> properties and headers of a message, as the dialect of queues has them.

header                                                     property
content-type, content-encoding, priority, correlation-id,  the same, with `_`
reply-to, expiration, timestamp, type, user-id, app-id
amqp-message-id                                            message_id
persistent:true                                            delivery_mode 2
destination, content-length, receipt, transaction          none: they are for the broker
any other                                                  a header
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mainstem.protocols.stomp.errors import StompError, invalid_header
from mainstem.protocols.stomp.mapping.destinations import reply_destination

PROPERTIES = {
    "content-type": "content_type",
    "content-encoding": "content_encoding",
    "priority": "priority",
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "expiration": "expiration",
    "amqp-message-id": "message_id",
    "timestamp": "timestamp",
    "type": "type",
    "user-id": "user_id",
    "app-id": "app_id",
}
NUMBERS = {"priority": 255, "timestamp": (1 << 64) - 1}
FOR_THE_FRAME = frozenset({"content-length", "receipt", "transaction"})
"""Headers that say nothing about the message."""
FOR_THE_BROKER = FOR_THE_FRAME | {"destination", "persistent"}
NOT_ON_SEND = "message-id"
HEADER_NAME_BYTES_MAX = 255
PERSISTENT = 2


def read_properties(headers: Mapping[str, str]) -> dict[str, Any]:
    """What a SEND says of its message. Raises StompError."""
    if NOT_ON_SEND in headers:
        invalid_header(f"'{NOT_ON_SEND}' is not allowed on 'SEND'.")
    properties: dict[str, Any] = {}
    own: dict[str, str] = {}
    for name, value in headers.items():
        known = PROPERTIES.get(name)
        if known is not None:
            properties[known] = _number(name, value) if name in NUMBERS else value
        elif name not in FOR_THE_BROKER:
            if len(name.encode()) > HEADER_NAME_BYTES_MAX:
                invalid_header(f"the name of a header has at most {HEADER_NAME_BYTES_MAX} bytes")
            own[name] = value
    if headers.get("persistent") == "true":
        properties["delivery_mode"] = PERSISTENT
    if own:
        properties["headers"] = own
    return properties


def _number(name: str, value: str) -> int:
    if value.isascii() and value.isdecimal() and len(value) <= 20 and int(value) <= NUMBERS[name]:
        return int(value)
    raise StompError("Invalid header", f"'{name}' is a number up to {NUMBERS[name]}\n")


def write_properties(properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a MESSAGE says of itself."""
    for header, name in PROPERTIES.items():
        value = properties.get(name)
        if value is not None:
            yield header, reply_destination(value) if header == "reply-to" else str(value)
    if properties.get("delivery_mode") == PERSISTENT:
        yield "persistent", "true"
    for name, value in properties.get("headers", {}).items():
        text = _text(value)
        if text is not None and name not in TAKEN:
            yield name, text


TAKEN = frozenset(PROPERTIES) | FOR_THE_BROKER | {"subscription", "message-id", "ack", "redelivered"}
"""A header of a message that has the name of one of ours would say what it must not."""


def _text(value: Any) -> str | None:
    """A header's value as text; None: it has none."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case None:
            return ""
        case bytes():
            return None
        case datetime.datetime():
            return str(int(value.timestamp()))
        case _:
            return msgspec.json.encode(value, enc_hook=_jsonable).decode()


def _jsonable(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
