"""One consumer: what its subscription gives it becomes entries, as far as the client has permits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mainstem.broker.queues import Message, Queue
from mainstem.protocols.pulsar.codec.frames import Buffer, encode_frame
from mainstem.protocols.pulsar.codec.schema import BASE, ID, MESSAGES, UINT64_MAX, Kind
from mainstem.protocols.pulsar.handlers.topics import Log
from mainstem.protocols.pulsar.mapping.messages import BATCH_MESSAGES_MAX, Place, entry_of, place_of_message
from mainstem.protocols.pulsar.mapping.names import TopicName

if TYPE_CHECKING:
    from mainstem.protocols.pulsar.handlers.calls import Speaker

EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = range(4)
"""Types of subscriptions, as commands have them."""
TYPE_NAMES = ("Exclusive", "Shared", "Failover", "Key_Shared")
PERMITS_MAX = 1 << 31
WORD_BITS = 64
END_LOOKED_FOR_S = 0.2
"""How often it is looked whether a consumer has reached the end of a topic that was ended."""
_DELIVERY = MESSAGES["Delivery"]


class PulsarConsumer:
    """One of a connection; the consumer of its queue."""

    room_bytes = -1
    is_exclusive = False

    def __init__(self, connection: Speaker, said: Any, topic: TopicName, log: Log, queue: Queue) -> None:
        self.connection = connection
        self.id: int = said.consumer_id
        self.name: str = said.consumer_name
        self.subscription: str = said.subscription
        self.kind: int = said.subType
        self.priority = -said.priority_level
        self.topic_name = topic
        self.log = log
        self.queue = queue
        self.said = said
        self.permits = 0
        self.held = 0
        """Messages that it has not acknowledged, about: they are counted when they go and when they come back."""
        self.delivered = 0
        self.since_ms = 0
        self.epoch: int | None = said.consumer_epoch if said.HasField("consumer_epoch") else None
        self.is_gone = False
        self.is_known = False
        """Whether the client was told that it has subscribed."""
        self.is_active: bool | None = None
        self.is_told_of_end = False
        self._unacknowledged_max = connection.parts.settings.unacknowledged_max
        self._entries = connection.parts.entries

    @property
    def room(self) -> int:
        """How many messages it may be given."""
        if self.connection.is_paused or self.is_gone or not self.is_known:
            return 0
        if self._unacknowledged_max and self.kind in (SHARED, KEY_SHARED):
            return min(self.permits, self._unacknowledged_max - self.held)
        return self.permits

    def wake(self) -> None:
        """It may have room again."""
        if not self.is_gone:
            self.queue.wake()

    def add_permits(self, count: int) -> None:
        """The client takes more."""
        self.permits = min(self.permits + count, PERMITS_MAX)
        self.wake()

    # What the queue calls

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """Send them, those of one entry together."""
        frames: list[Buffer] = []
        at = 0
        while at < len(messages):
            message = messages[at]
            place = place_of_message(message)
            end = at + 1
            if place.size > 1:
                first = message.offset - place.number
                while end < len(messages) and messages[end].offset < first + place.size:
                    if (
                        messages[end].offset <= messages[end - 1].offset
                        or place_of_message(messages[end]).size != place.size
                    ):
                        break
                    end += 1
            frames += self._frame(messages[at:end], place)
            at = end
        for message in messages:
            message.holder = self
        self.held += len(messages)
        self.delivered += len(messages)
        self.connection.session.say(frames)

    def _frame(self, messages: Sequence[Message], place: Place) -> Iterable[Buffer]:
        first = messages[0].offset - place.number
        entry = self._entries.get(self.log.number, first)
        if entry is None:
            entry = entry_of(messages)
        identity = ID(ledgerId=self.log.number, entryId=first)
        if self.log.partition >= 0:
            identity.partition = self.log.partition
        said = _DELIVERY(consumer_id=self.id, message_id=identity)
        if self.kind in (SHARED, KEY_SHARED):
            failures = max([message.failures for message in messages])
            if failures:
                said.redelivery_count = failures
        if place.size and len(messages) != place.size:
            said.ack_set.extend(ack_set(place.size, [message.offset - first for message in messages]))
        if self.epoch is not None:
            said.consumer_epoch = self.epoch
        self.permits -= len(messages) if place.size else place.permits
        return encode_frame(BASE(type=int(Kind.MESSAGE), message=said), entry)

    def cancelled(self) -> None:
        """The subscription or the topic is gone."""
        self.close(is_gone=True)

    def activated(self, is_active: bool) -> None:
        """Of a failover subscription: it is the one that is served, or is not."""
        self.is_active = is_active
        if self.is_known:
            self.tell_active()

    def tell_active(self) -> None:
        """Tell the client, where consumers take turns."""
        if self.kind == FAILOVER:
            self.connection.say(Kind.ACTIVE_CONSUMER_CHANGE, consumer_id=self.id, is_active=bool(self.is_active))

    def watch_end(self) -> None:
        """Tell the client, once it was given all of a topic that takes nothing more."""
        if self.is_gone or self.is_told_of_end:
            return
        if all(not lane.ready and not lane.is_behind for lane in self.queue.lanes):
            self.is_told_of_end = True
            self.connection.say(Kind.REACHED_END_OF_TOPIC, consumer_id=self.id)
        else:
            self.connection.parts.broker.clock.call_later(END_LOOKED_FOR_S, self.watch_end)

    # Ending

    def holdings(self) -> list[Message]:
        """What it was given and is not settled, in order."""
        return [
            message
            for lane in self.queue.lanes
            for _, message in sorted(lane.unsettled.items())
            if message.holder is self
        ]

    def leave(self) -> None:
        """It takes nothing more, and gives back what it has."""
        if not self.is_gone:
            self.is_gone = True
            held = self.holdings()
            self.queue.detach(self)
            if not self.queue.is_gone:
                self.connection.parts.broker.queues.settling.requeue(held, failed=False)
        self.connection.parts.subscribing.left(self)

    def close(self, *, is_gone: bool = False) -> None:
        """Tell the client that it is closed: it asks again."""
        if is_gone:
            self.is_gone = True
        self.leave()
        if self.connection.consumers.pop(self.id, None) is self:
            self.connection.say(Kind.CLOSE_CONSUMER, consumer_id=self.id, request_id=UINT64_MAX)


def ack_set(count: int, open_indexes: Iterable[int]) -> list[int]:
    """Which messages of a batch are not settled: bits of signed words of 64, the lowest first."""
    bits = 0
    for index in open_indexes:
        bits |= 1 << index
    return [_signed(bits >> at & UINT64_MAX) for at in range(0, max(bits.bit_length(), 1), WORD_BITS)]


def open_bits(words: Sequence[int]) -> int:
    """The same back, as one number. More words than a batch can have are left out."""
    bits = 0
    for number, word in enumerate(words[: BATCH_MESSAGES_MAX // WORD_BITS + 1]):
        bits |= (word & UINT64_MAX) << (number * WORD_BITS)
    return bits


def _signed(word: int) -> int:
    return word - (1 << WORD_BITS) if word >> (WORD_BITS - 1) else word
