"""basic.qos with `global`: one limit for all consumers of a channel together, shared in rounds.

In each round every consumer may take its share of what is left, and then waits until the others had their turn: otherwise the
queue that is looked at first would get everything. Consumers that do not acknowledge take nothing from the limit, but wait
like the others while it is reached, as in RabbitMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainstem.broker.queues import Queue
    from mainstem.protocols.amqp.handlers.channel import Channel
    from mainstem.protocols.amqp.handlers.deliver.consumers import ChannelConsumer


class SharedPrefetch:
    """Of one channel, while it has such a limit."""

    def __init__(self, channel: Channel, limit: int) -> None:
        self.limit = limit
        self._channel = channel
        self._order: dict[ChannelConsumer, None] = dict.fromkeys(channel.consumers.values())
        """Who was served in the last round comes behind the others."""
        self._served: set[ChannelConsumer] = set()
        """In this round."""
        self._rooms: dict[ChannelConsumer, int] = {}
        self._is_scheduled = False

    def room_of(self, consumer: ChannelConsumer) -> int | None:
        """How many messages a consumer may have now; None: as many as it likes."""
        if consumer.no_ack:
            return None if self.limit > self._channel.outstanding else 0
        return self._rooms.get(consumer, 0)

    def add(self, consumer: ChannelConsumer) -> None:
        """One more consumer."""
        self._order[consumer] = None
        self._share_out()

    def remove(self, consumer: ChannelConsumer) -> None:
        """It was cancelled, or its queue is gone."""
        self._order.pop(consumer, None)
        self._served.discard(consumer)
        self._share_out()

    def delivered(self, consumer: ChannelConsumer) -> None:
        """It has got messages: the others are next."""
        self._served.add(consumer)
        self._share_out()
        if not self._is_scheduled:
            self._is_scheduled = True
            self._channel.connection.queues.clock.call_soon(self._next_round)

    def _next_round(self) -> None:
        self._is_scheduled = False
        self._order = dict.fromkeys(sorted(self._order, key=self._served.__contains__))
        self._served.clear()
        if not self._channel.is_ended and self._channel.shared is self:
            self.wake()

    def wake(self) -> None:
        """There may be room: look for messages, first for those who have waited longest."""
        self._share_out()
        for consumer in list(self._order):
            consumer.wake()

    def _share_out(self) -> None:
        """The consumers of one queue are served at the same time: together they have no more room than is left."""
        left = max(self.limit - self._channel.outstanding, 0)
        sharing = [consumer for consumer in self._order if not consumer.no_ack]
        share = max(left // max(len(sharing), 1), 1)
        left_of: dict[Queue, int] = {}
        self._rooms = {}
        for consumer in sharing:
            if consumer not in self._served:
                left_here = left_of.get(consumer.queue, left)
                room = self._rooms[consumer] = min(share, left_here)
                left_of[consumer.queue] = left_here - room
        for consumer in self._order:
            consumer.adjust()
