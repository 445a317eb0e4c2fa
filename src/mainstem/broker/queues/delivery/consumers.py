"""Who is given messages: consumers of one queue, and whose turn it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mainstem.coordination.errors import QueueBusy
from mainstem.model.speaking import SPEAKER, Speaker

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue
    from mainstem.wire.messages.message import Message

ROOM_BYTES_MAX = 8 << 20
"""What one consumer is given in one turn, but for a single message that is larger."""


class Consumer(Protocol):
    """What an adapter attaches to a queue."""

    priority: int
    """Consumers of a higher one are served first, as long as they have room."""
    room_bytes: int
    """How many bytes of messages it may take now; -1: no limit. A message that is larger than that is taken by itself."""
    is_exclusive: bool
    """Wants the queue to itself."""

    @property
    def room(self) -> int:
        """How many messages it may take now, kept up to date, `deliver` included; 0 while its peer does not read."""

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """These are yours: to be settled, given back or rejected. Once per turn; the list is yours too."""

    def cancelled(self) -> None:
        """The queue is gone, and with it all that was not settled."""

    def activated(self, is_active: bool) -> None:
        """Of a queue that serves one consumer at a time: it is your turn, until you are detached."""


NOBODY: dict[Consumer, Speaker] = {}
"""Stays empty: of all queues without consumers."""


def bytes_of(consumer: Consumer) -> int:
    """How many bytes it may be given in one turn."""
    return ROOM_BYTES_MAX if consumer.room_bytes < 0 else min(consumer.room_bytes, ROOM_BYTES_MAX)


class Rota:
    """The consumers of a queue, in the order in which they are served."""

    __slots__ = ("_turn", "active", "all", "is_single", "parties")

    def __init__(self, is_single: bool) -> None:
        self.is_single = is_single
        """Whether only one is served at a time."""
        self.all: list[Consumer] = []
        """By priority, the highest first; the order of arrival within."""
        self.active: Consumer | None = None
        self.parties: dict[Consumer, Speaker] = NOBODY
        """The connections of consumers, as far as they are known."""
        self._turn = 0

    def check(self, consumer: Consumer) -> None:
        """Raises QueueBusy."""
        if any(other.is_exclusive for other in self.all):
            raise QueueBusy("another consumer has the queue to itself")
        if consumer.is_exclusive and self.all:
            raise QueueBusy("the queue has consumers")

    def add(self, consumer: Consumer) -> None:
        """One more; raises QueueBusy."""
        self.check(consumer)
        who = SPEAKER.get()
        if who is not None:
            if self.parties is NOBODY:
                self.parties = {}
            self.parties[consumer] = who
        place = len(self.all)
        while place and self.all[place - 1].priority < consumer.priority:
            place -= 1
        self.all.insert(place, consumer)
        if self.is_single and self.active is None:
            self._activate(consumer)

    def remove(self, consumer: Consumer) -> bool:
        """One less; answers whether it was there."""
        if consumer not in self.all:
            return False
        self.parties.pop(consumer, None)
        self.all.remove(consumer)
        if self.active is consumer:
            self.active = None
            if self.all:
                self._activate(self.all[0])
        return True

    def is_overtaken(self) -> bool:
        """Whether somebody waits who comes before the active one: that one is given nothing more."""
        return self.active is not None and self.all[0].priority > self.active.priority

    def take_over(self) -> None:
        """The first consumer is active from now on."""
        assert self.active is not None
        self.active.activated(False)
        self._activate(self.all[0])

    def _activate(self, consumer: Consumer) -> None:
        self.active = consumer
        consumer.activated(True)

    def able(self) -> Sequence[Consumer]:
        """Who is to be served now: of the highest priority among those with room, the next in turn first."""
        if self.is_single:
            active = self.active
            return () if active is None or active.room <= 0 else (active,)
        everyone = self.all
        if len(everyone) == 1:
            return everyone if everyone[0].room > 0 else ()
        able = [consumer for consumer in everyone if consumer.room > 0]
        if not able:
            return able
        if able[0].priority != able[-1].priority:
            highest = able[0].priority
            able = [consumer for consumer in able if consumer.priority == highest]
        turn = self._turn % len(able)
        return able[turn:] + able[:turn] if turn else able

    def served(self, count: int) -> None:
        """This number of messages was given out, one to each in turn."""
        self._turn += count
