"""Leases: how long a consumer may work on a message before another gets it."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.parts import QueueParts
    from mainstem.broker.queues.queue import Queue


class Leases:
    """Of one queue. All are of one length, so they end in the order in which they begin."""

    __slots__ = ("_deadlines", "_lease_ms", "_order", "_parts", "_queue")

    def __init__(self, parts: QueueParts, queue: Queue, lease_ms: int) -> None:
        self._parts = parts
        self._queue = queue
        self._lease_ms = lease_ms
        self._order: deque[tuple[int, Message]] = deque()
        self._deadlines: dict[Message, int] = {}

    def begin(self, messages: Iterable[Message]) -> None:
        """They are given out, or worked on for longer."""
        deadline_ms = self._parts.now_ms() + self._lease_ms
        for message in messages:
            if message.lane.unsettled.get(message.offset) is message:
                self._deadlines[message] = deadline_ms
                self._order.append((deadline_ms, message))
        self._arm()

    def _arm(self) -> None:
        if self._order:
            self._parts.timers.at(self._order[0][0], (self._queue, "lease"), functools.partial(self._on_timer))

    def _on_timer(self) -> None:
        now_ms = self._parts.now_ms()
        late: list[Message] = []
        while self._order and self._order[0][0] <= now_ms:
            deadline_ms, message = self._order.popleft()
            if self._deadlines.get(message) == deadline_ms:
                del self._deadlines[message]
                if message.lane.unsettled.get(message.offset) is message:
                    # From now on another object stands for it: what its late worker says of the old one has no effect.
                    late.append(message.again())
                    message.lane.unsettled[message.offset] = late[-1]
        if late:
            self._parts.settling.requeue(late, failed=True, error="its lease ended")
        self._arm()
