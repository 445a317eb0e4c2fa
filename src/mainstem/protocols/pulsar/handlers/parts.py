"""What all connections, and both listeners, have in common."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.log import Edge, TimeAfter
from mainstem.broker.subscriptions.topic_subscriptions import Subscription
from mainstem.protocols.pulsar.handlers.acknowledging import Acknowledging
from mainstem.protocols.pulsar.handlers.book import Book
from mainstem.protocols.pulsar.handlers.calls import Handler, Refusal, Spawn
from mainstem.protocols.pulsar.handlers.compaction import Compaction
from mainstem.protocols.pulsar.handlers.entry_cache import EntryCache
from mainstem.protocols.pulsar.handlers.login import Login
from mainstem.protocols.pulsar.handlers.lookups import Lookups
from mainstem.protocols.pulsar.handlers.producing import TERMINATED, Producing
from mainstem.protocols.pulsar.handlers.schemas import TopicSchemas
from mainstem.protocols.pulsar.handlers.subscribing import Subscribing
from mainstem.protocols.pulsar.handlers.topics import Log, PulsarTopics
from mainstem.protocols.pulsar.session.settings import PulsarSettings

MS_DIGITS_MAX = 16


class PulsarParts:
    """Of one broker."""

    def __init__(
        self,
        broker: Broker,
        settings: PulsarSettings,
        version: str,
        address: Callable[[], str | None],
        spawn: Spawn,
    ) -> None:
        self.broker = broker
        self.settings = settings
        self.spawn = spawn
        self.book = Book(broker)
        self.topics = PulsarTopics(broker, settings, self.book)
        self.compaction = Compaction(broker, self.book)
        self.entries = EntryCache(settings.entry_cache_bytes)
        self.lookups = Lookups(self.topics, address)
        self.login = Login(broker.door, settings, version)
        self.schemas = TopicSchemas(self)
        self.subscribing = Subscribing(self)
        self.producing = Producing(self)
        self.acknowledging = Acknowledging(self)
        self.handlers: dict[int, Handler] = {
            **self.login.handlers(),
            **self.lookups.handlers(),
            **self.producing.handlers(),
            **self.subscribing.handlers(),
            **self.acknowledging.handlers(),
            **self.schemas.handlers(),
        }
        self.refusals: dict[str, Refusal] = {
            **self.lookups.refusals(),
            **self.acknowledging.refusals(),
            **self.schemas.refusals(),
        }

    def shown_time(self, time_ms: int) -> str:
        """As administrators read it."""
        return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    # What both listeners do

    def subscriptions_of(self, log: Log) -> list[Subscription]:
        """Those of one partition, of every producer."""
        found = self.broker.topic_subscriptions.of_topic(log.topic.namespace, log.topic.name)
        return [one for one in found if one.entry.partition == log.part]

    async def load(self, subscription: Subscription) -> None:
        """Until its counts are right, though nobody uses it."""
        await self.broker.topic_subscriptions.load_queue(subscription)
        assert subscription.queue is not None
        await self.broker.queues.open(subscription.queue)

    async def clear(self, subscription: Subscription) -> None:
        """All that waits is done with. Durable when answered."""
        await self.load(subscription)
        assert subscription.queue is not None
        await self.broker.queues.purge(subscription.queue)

    async def offset_at_time(self, log: int, time_ms: str) -> int:
        """The first record at or after a time; behind all, if there is none."""
        number = int(time_ms) if time_ms.isdecimal() and len(time_ms) < MS_DIGITS_MAX else 0
        offset = (await self.broker.find(log, TimeAfter(number))).offset
        return offset if offset >= 0 else (await self.broker.find(log, Edge.END)).offset

    def is_used(self, topic: Topic) -> bool:
        """Whether it has producers or consumers."""
        has_producers = any(log in self.producing.attached for log in topic.logs)
        subscriptions = self.broker.topic_subscriptions.of_topic(topic.namespace, topic.name)
        return has_producers or any(one.queue is not None and one.queue.consumers.all for one in subscriptions)

    async def delete_topic(self, topic: Topic) -> None:
        """With all that is in it, and what is known of it."""
        await self.broker.topics.delete(topic)
        self.producing.topic_ended(topic.logs)
        await self.book.forget(topic)

    async def terminate(self, log: Log) -> None:
        """Nothing more is published; consumers that have read all are told."""
        await self.book.put_fact(log.topic, TERMINATED, value=True)
        self.producing.topic_ended(log.topic.logs)
        self.subscribing.tell_ends(log.number)
