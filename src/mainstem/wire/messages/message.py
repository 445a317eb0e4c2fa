"""A message on its way through a queue: a record, and how it fared so far.

The only object that is made per message. Its headers stay encoded, exactly as they are stored: who needs one of them looks
for it, and nobody does on the hot path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813


class Message:
    """One record, as a queue gives it out."""

    __slots__ = (
        "deliveries", "expires_ms", "failures", "headers", "holder", "key", "lane", "offset", "timestamp_ms", "value"
    )  # fmt: skip

    def __init__(
        self,
        lane: Any,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        headers: bytes,
        value: bytes | memoryview,
        expires_ms: int,
    ) -> None:
        self.lane = lane
        """The lane of its queue; with the offset, its identity."""
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.headers = headers
        """The record's headers as they are stored: a varint count, then the entries."""
        self.value = value
        self.expires_ms = expires_ms
        """When it is too old to be given out; 0: never."""
        self.deliveries = 0
        """How often it was given out before. Above 0: it is redelivered."""
        self.failures = 0
        """How often it was given out and failed."""
        self.holder: object = None
        """Its holder, where the giver wants to know."""

    def again(self) -> Message:
        """The same message as another object."""
        message = Message(
            self.lane, self.offset, self.timestamp_ms, self.key, self.headers, self.value, self.expires_ms
        )
        message.deliveries, message.failures = self.deliveries, self.failures
        return message

    def __repr__(self) -> str:
        return f"<message {self.offset} of log {self.lane.cursor.log}>"


def new_messages(
    lane: Any,
    timestamp_ms: int,
    key: bytes | None,
    headers: bytes,
    values: Sequence[bytes | memoryview],
    expires_ms: int,
) -> list[Message]:
    """Messages that differ in their values only; offsets come later."""
    if not cython.compiled:
        return [Message(lane, -1, timestamp_ms, key, headers, value, expires_ms) for value in values]
    made: list[Message] = []
    for value in values:
        # Past `__init__`, whose arguments would be packed and unpacked for each.
        message = Message.__new__(Message)
        message.lane = lane
        message.offset = -1
        message.timestamp_ms = timestamp_ms
        message.key = key
        message.headers = headers
        message.value = value
        message.expires_ms = expires_ms
        made.append(message)
    return made


def copy_messages(lane: Any, models: list[Message]) -> list[Message]:
    """The same messages for another lane; offsets come later, and so does when they expire."""
    made: list[Message] = []
    for model in models:
        message = Message.__new__(Message)
        message.lane = lane
        message.offset = -1
        message.timestamp_ms = model.timestamp_ms
        message.key = model.key
        message.headers = model.headers
        message.value = model.value
        message.expires_ms = 0
        if not cython.compiled:
            message.deliveries = message.failures = 0
            message.holder = None
        made.append(message)
    return made
