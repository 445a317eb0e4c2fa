"""Topics as Pulsar's clients know them: by name, with partitions or without, made by their first use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic, Topic
from mainstem.broker.log import Edge
from mainstem.broker.queues import Message
from mainstem.model.errors import InvalidBatch
from mainstem.protocols.pulsar.errors import CommandRefused, ServerError
from mainstem.protocols.pulsar.handlers.book import Book
from mainstem.protocols.pulsar.mapping.messages import place_of_message, unit_of
from mainstem.protocols.pulsar.mapping.names import (
    COORDINATORS,
    PERSISTENT,
    SYSTEM,
    TopicName,
    namespace_of,
    partition_name,
    shown_name,
)
from mainstem.protocols.pulsar.session.settings import PulsarSettings
from mainstem.wire.messages.stored_messages import decode_messages
from mainstem.wire.record_batch import batches_in, read_header

GROWTH = 4
"""What a batch may grow by when it is decompressed and its messages become records."""
BATCHES_LOOKED_AT = 64
"""From the end of a log back, in search of its last message."""
PLAIN = "partitions"
"""The fact that a topic has no partitions for Pulsar's clients, although it is one log: 0."""


class Log(NamedTuple):
    """One partition, or a topic without any."""

    topic: Topic
    partition: int
    """As clients say it; -1: the topic has none."""
    number: int
    """Of our log: what clients call a ledger."""

    @property
    def part(self) -> int:
        """The partition of ours."""
        return max(self.partition, 0)


class Unit(NamedTuple):
    """The offsets of an entry."""

    first: int
    last: int
    messages: int
    """Of the batch; 0: it is none."""


class PulsarTopics:
    """All of a broker."""

    def __init__(self, broker: Broker, settings: PulsarSettings, book: Book) -> None:
        self._broker = broker
        self._settings = settings
        self.book = book

    # Finding

    def find(self, name: TopicName) -> Topic | None:
        """The topic of this name, whatever the partition."""
        return self._broker.topics.named(name.namespace).get(name.topic)

    def partitions(self, topic: Topic) -> int:
        """How many its clients see; 0: it has none."""
        count = len(topic.logs)
        return 0 if count == 1 and self.book.facts(topic).get(PLAIN) == 0 else count

    def check_place(self, name: TopicName) -> None:
        """Whether its namespace is there. Raises CommandRefused."""
        if name.domain != PERSISTENT:
            raise CommandRefused(ServerError.NOT_ALLOWED, f"{name} is not persistent: such topics are not supported")
        if not self.book.has_place(name.place):
            raise CommandRefused(ServerError.TOPIC_NOT_FOUND, f"Namespace not found: {name.place}")

    def partitions_of(self, name: TopicName, *, may_create: bool) -> int:
        """What a client is told of a topic that may not be there yet. Raises CommandRefused."""
        if name.place == SYSTEM and name.local == COORDINATORS:
            return 1
        self.check_place(name)
        topic = self.find(name)
        if topic is not None:
            return 0 if name.partition >= 0 else self.partitions(topic)
        if not may_create:
            raise CommandRefused(ServerError.TOPIC_NOT_FOUND, f"Topic not found: {name}")
        policy = self._auto_creation(name)
        return int(policy.get("defaultNumPartitions") or 1) if policy.get("topicType") == "partitioned" else 0

    def _auto_creation(self, name: TopicName) -> dict[str, Any]:
        found = self.book.policies(name.place).get("autoTopicCreationOverride")
        return found or {"allowAutoTopicCreation": self._settings.topic_auto_creation}

    def may_create(self, name: TopicName) -> bool:
        """Whether a topic of this name comes with its first use."""
        return bool(self._auto_creation(name).get("allowAutoTopicCreation"))

    async def open(self, name: TopicName, *, may_create: bool = True) -> Log:
        """The log that a producer or a consumer asks for. Raises CommandRefused, kinds of MainstemError."""
        self.check_place(name)
        topic = self.find(name)
        if topic is None:
            if not (may_create and self.may_create(name)):
                raise CommandRefused(ServerError.TOPIC_NOT_FOUND, f"Topic {name} does not exist")
            policy = self._auto_creation(name)
            count = int(policy.get("defaultNumPartitions") or 1) if policy.get("topicType") == "partitioned" else 0
            topic = await self.create(name, count)
        return self.log_of(topic, name)

    def log_of(self, topic: Topic, name: TopicName) -> Log:
        """The log of a name. Raises CommandRefused."""
        if name.partition >= len(topic.logs):
            raise CommandRefused(ServerError.TOPIC_NOT_FOUND, f"Topic {name.whole} has {len(topic.logs)} partitions")
        if name.partition < 0 and len(topic.logs) > 1:
            raise CommandRefused(ServerError.NOT_ALLOWED, f"{name} is a partitioned topic: name one of its partitions")
        return Log(topic, name.partition, topic.logs[max(name.partition, 0)])

    async def create(self, name: TopicName, partitions: int, configs: dict[str, str] | None = None) -> Topic:
        """A topic, and whether it has partitions. Raises kinds of MainstemError."""
        bytes_max = str(self._settings.message_bytes_max * GROWTH)
        wish = NewTopic(
            name.topic, max(partitions, 1), {"max.message.bytes": bytes_max, **(configs or {})}, name.namespace
        )
        topic = await self._broker.topics.ensure(wish)
        if not partitions and not self.book.facts(topic):
            await self.book.put_fact(topic, PLAIN, 0)
        return topic

    def names(self, place: str) -> list[str]:
        """All topics of a namespace, each partition by its own name."""
        found: list[str] = []
        for topic in self._broker.topics.named(namespace_of(place)).values():
            whole = f"{PERSISTENT}://{place}/{shown_name(topic.name)}"
            count = self.partitions(topic)
            found += [partition_name(whole, number) for number in range(count)] if count else [whole]
        return sorted(found)

    def partitioned_names(self, place: str) -> list[str]:
        """The topics of a namespace that have partitions, by their whole names."""
        topics = self._broker.topics.named(namespace_of(place)).values()
        return sorted(f"{PERSISTENT}://{place}/{shown_name(one.name)}" for one in topics if self.partitions(one))

    # Offsets

    async def unit_at(self, log: int, offset: int) -> Unit | None:
        """The entry that has the record at this offset; None: there is no record."""
        start = (await self._broker.find(log, Edge.START)).offset
        end = (await self._broker.find(log, Edge.END)).offset
        message = await self.message_at(log, offset) if start <= offset < end else None
        return None if message is None else _unit(message)

    async def message_at(self, log: int, offset: int) -> Message | None:
        """The record at an offset of a log that has it."""
        return next((message for message in await self._messages(log, offset) if message.offset == offset), None)

    async def last_unit(self, log: int) -> Unit | None:
        """The last entry of a log; None: it is empty."""
        start = (await self._broker.find(log, Edge.START)).offset
        offset = (await self._broker.find(log, Edge.STABLE)).offset - 1
        for _ in range(BATCHES_LOOKED_AT):
            if offset < start:
                return None
            result = await self._broker.read(log, offset, 1)
            for buffer in result.batches[:1]:
                header = read_header(buffer)
                if not header.is_control and header.record_count:
                    found = await self._messages(log, offset)
                    if found:
                        return _unit(found[-1])
                offset = header.base_offset
            offset -= 1
        return None

    async def _messages(self, log: int, offset: int) -> list[Message]:
        result = await self._broker.read(log, offset, 1)
        for buffer in result.batches:
            for position, size in batches_in(buffer):
                header = read_header(buffer, position)
                if header.is_control or header.next_offset <= offset:
                    continue
                try:
                    return decode_messages(memoryview(buffer)[position : position + size], None)
                except InvalidBatch:
                    return []
        return []


def _unit(message: Message) -> Unit:
    first, last = unit_of(message)
    return Unit(first, last, place_of_message(message).size)


def topics_hash(names: Iterable[str]) -> str:
    """By which a client knows whether a list of topics has changed."""
    return f"{hashlib.blake2s(chr(10).join(sorted(names)).encode(), digest_size=4).hexdigest()}"
