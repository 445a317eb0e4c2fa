"""Receipt handles: names of messages that clients have for a time.

A handle is good until its message is settled, given back, or its time is over; then another object stands for the message.
Handles are in memory: after a restart every message that was not settled is given out again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import msgspec

from mainstem.broker.queues import Message, Queue
from mainstem.protocols.rocketmq.codec.grpc.codes import Code
from mainstem.protocols.rocketmq.mapping.grpc_messages import CallRefused

HANDLES_MAX = 100_000
"""Messages that clients may have at the same time."""


class Handle(msgspec.Struct, eq=False):
    """A message that a client has."""

    id: str
    queue: Queue
    message: Message

    @property
    def is_good(self) -> bool:
        """Whether the client still has it."""
        message = self.message
        return not message.lane.is_gone and message.lane.unsettled.get(message.offset) is message


class Handles:
    """Of all groups."""

    def __init__(self, handles_max: int = HANDLES_MAX, random: Callable[[int], bytes] = os.urandom) -> None:
        self._handles_max = handles_max
        self._prefix = random(6).hex()
        """A handle of an earlier run is no handle of this one."""
        self._number = 0
        self._known: dict[str, Handle] = {}

    def reserve(self, count: int) -> int:
        """How many messages may be given out, at least one. Raises CallRefused."""
        if len(self._known) + count > self._handles_max:
            self._known = {name: handle for name, handle in self._known.items() if handle.is_good}
        room = self._handles_max - len(self._known)
        if room <= 0:
            text = f"{len(self._known)} messages are with clients that have not acknowledged them"
            raise CallRefused(Code.TOO_MANY_REQUESTS, text)
        return min(count, room)

    def issue(self, queue: Queue, messages: Iterable[Message]) -> list[Handle]:
        """The messages are a client's."""
        issued = []
        for message in messages:
            self._number += 1
            handle = Handle(f"{self._prefix}-{self._number:x}", queue, message)
            self._known[handle.id] = handle
            issued.append(handle)
        return issued

    def find(self, queue: Queue, name: str) -> Message | None:
        """The message of a handle that is still good."""
        handle = self._known.get(name)
        if handle is None or handle.queue is not queue:
            return None
        if not handle.is_good:
            del self._known[name]
            return None
        return handle.message

    def redeem(self, queue: Queue, name: str) -> Message | None:
        """The same; the handle is good no more."""
        message = self.find(queue, name)
        if message is not None:
            del self._known[name]
        return message
