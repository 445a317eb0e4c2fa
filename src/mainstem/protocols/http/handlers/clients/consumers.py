"""/v1/topics/{name}/consumers: all who read a topic and remember how far, whatever their protocol."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Iterable
from typing import NamedTuple
from urllib.parse import urlencode

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import OPTIONS, Topic
from mainstem.broker.errors import UnknownGroup
from mainstem.broker.live.lag_history import LagHistory, LagSample
from mainstem.broker.queues import Queue
from mainstem.model.errors import MainstemError
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.groups.group_lag import Behind, GroupLag, TotalLag
from mainstem.protocols.http.handlers.groups.lag import LagMeter
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import path_of
from mainstem.protocols.http.handlers.routes import Call, Route, Spawn
from mainstem.protocols.http.mapping.clients.consumers import (
    AllConsumersPage,
    AllConsumersQuery,
    ConsumerDocument,
    ConsumerPage,
    ConsumersQuery,
    Kind,
)
from mainstem.protocols.http.mapping.group_documents import group_names, group_of
from mainstem.protocols.http.mapping.topic_documents import TopicPath

OK = 200
ALL_CONSUMERS = "/v1/consumers"
CONSUMERS = "/v1/topics/{name}/consumers"
SAMPLE_TICKS = 15
"""Seconds between two samples of the lag."""
PARTITIONS_MAX = 10_000
"""Looked at for one sample of all consumers."""
RETENTION = "retention.ms"
FRESH_MS, FRESH_CONSUMERS_MAX = 2_000, 200
"""This number of consumers is looked at anew for a list that is older than this; of more, the last sample is shown."""


class Consumer(NamedTuple):
    """One consumer of one topic, as it is now."""

    kind: Kind
    name: str
    topic: Topic
    members: int
    position: int
    messages: int | None
    seconds: float | None
    overtaken: int = 0
    moved_ms: int | None = None
    is_overtaken: bool = True
    """Whether retention deletes what it has not read."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """By which its history is found."""
        return self.kind, self.name, self.topic.namespace, self.topic.name


class EveryConsumer(NamedTuple):
    """Consumers of all topics, as they were."""

    consumers: tuple[Consumer, ...] = ()
    time_ms: int = 0
    is_complete: bool = True


class ConsumerHandlers:
    """Consumers: listed, and sampled."""

    def __init__(self, broker: Broker, lag: GroupLag, meter: LagMeter, spawn: Spawn) -> None:
        self._broker = broker
        self._lag = lag
        self._meter = meter
        self._spawn = spawn
        self._history = LagHistory()
        self._is_sampling = False
        self._every = EveryConsumer()
        broker.live.on_sample.append(self._sampled)

    def routes(self) -> list[Route]:
        """What is served here."""
        return [
            Route("GET", CONSUMERS, self.list_consumers, {OK: ConsumerPage}, steps=TopicPath, query=ConsumersQuery,
                  refusals=(errors.UnknownTopic,)),
            Route("GET", ALL_CONSUMERS, self.list_all_consumers, {OK: AllConsumersPage}, query=AllConsumersQuery),
        ]  # fmt: skip

    async def list_consumers(self, call: Call) -> ConsumerPage:
        """All who read a topic and remember how far, with lag, trend, and whom retention will overtake."""
        query: ConsumersQuery = call.query
        topic = self._broker.topics.get(call.path.name, query.namespace)
        queries = self._queries()
        found = []
        async for consumer in self._of_topic(topic, Pace(self._broker.clock)):
            if query.search in consumer.name and query.kind in (None, consumer.kind):
                found.append(self._describe(consumer, queries))
        end = query.after + query.limit
        line = heapq.nsmallest(end + 1, found, key=_order(query.sort))
        return ConsumerPage(topic.name, line[query.after : end], _next(topic.name, query) if len(line) > end else None)

    async def list_all_consumers(self, call: Call) -> AllConsumersPage:
        """All who read any topic and remember how far, the one furthest behind first."""
        query: AllConsumersQuery = call.query
        every = self._every
        age_ms = self._broker.clock.now_ms() - every.time_ms
        if age_ms > FRESH_MS and len(every.consumers) <= FRESH_CONSUMERS_MAX:
            every = await self._look_at_all()
        queries = self._queries()
        pace = Pace(self._broker.clock)
        found = []
        for consumer in every.consumers:
            await pace.step()
            if query.namespace not in (None, consumer.topic.namespace) or query.kind not in (None, consumer.kind):
                continue
            if query.search in consumer.name or query.search in consumer.topic.name:
                found.append(consumer)
        end = query.after + query.limit
        line = heapq.nsmallest(end + 1, found, key=_order_of_all(query.sort))
        shown = [self._describe(consumer, queries) for consumer in line[query.after : end]]
        following = _next_of_all(query) if len(line) > end else None
        return AllConsumersPage(shown, following, every.time_ms, every.is_complete)

    async def _look_at_all(self) -> EveryConsumer:
        """At most a number of partitions."""
        pace, looked_at, is_complete = Pace(self._broker.clock), 0, True
        found: list[Consumer] = []
        for name in group_names(self._broker):
            looked_at += self._lag.count(name)
            if looked_at > PARTITIONS_MAX:
                is_complete = False
                break
            found += await self._groups(name, pace)
        found += [consumer async for consumer in self._used_queues(pace)]
        self._every = EveryConsumer(tuple(found), self._broker.clock.now_ms(), is_complete)
        return self._every

    def _describe(self, consumer: Consumer, queries: dict[tuple[str, str | None], set[str]]) -> ConsumerDocument:
        sample = self._sample_of(consumer)
        retention_ms = _retention_ms(consumer.topic) if consumer.is_overtaken else None
        trend = self._history.trend(consumer.key, sample, retention_ms)
        source = (consumer.name, consumer.topic.namespace if consumer.kind == "queue" else None)
        return ConsumerDocument(
            kind=consumer.kind,
            name=consumer.name,
            topic=consumer.topic.name,
            namespace=consumer.topic.namespace,
            members=consumer.members,
            queries=sorted(queries.get(source, ())),
            lag_messages=consumer.messages,
            lag_seconds=consumer.seconds,
            trend=trend.direction,
            lag_change_per_second=trend.messages_per_second,
            stuck_since_ms=trend.stuck_since_ms,
            retention_overtakes_in_ms=trend.overtaken_in_ms,
            overtaken_messages=consumer.overtaken,
            history=self._history.messages(consumer.key),
        )

    def _queries(self) -> dict[tuple[str, str | None], set[str]]:
        """Spark's queries by what they read in queue mode."""
        found: dict[tuple[str, str | None], set[str]] = {}
        for one in self._broker.acquisitions.all():
            if one.is_holding:
                found.setdefault((one.source.name, one.source.namespace), set()).update(
                    reading.query for reading in one.readings
                )
        return found

    # Who there is

    async def _of_topic(self, topic: Topic, pace: Pace) -> AsyncIterator[Consumer]:
        for name in group_names(self._broker):
            await pace.step()
            if self._lag.reads(name, topic):
                for consumer in await self._groups(name, pace, topic):
                    yield consumer
        async for consumer in self._queues(topic, pace):
            yield consumer

    async def _groups(self, name: str, pace: Pace, only: Topic | None = None) -> Iterable[Consumer]:
        """A group, once for each topic of which it has offsets."""
        is_shared = name in self._broker.share_groups
        members = self._members(name)
        found: dict[str, tuple[Topic, TotalLag, list[Behind]]] = {}
        async for behind in self._lag.walk(name, pace, only):
            if behind.topic not in found:
                topic = only or self._broker.topics.named().get(behind.topic)
                if topic is None:
                    continue
                found[behind.topic] = topic, TotalLag(), []
            _, total, positions = found[behind.topic]
            total.add(behind.lag)
            positions.append(behind)
        return [
            Consumer(
                kind="share-group" if is_shared else "group",
                name=name,
                topic=topic,
                members=members,
                # Of a share group, what is settled above the floor counts, too.
                position=sum(behind.lag.end - behind.lag.messages for behind in positions),
                messages=total.messages,
                seconds=total.seconds,
                overtaken=0 if is_shared else sum(_overtaken(behind) for behind in positions),
                moved_ms=max((behind.committed_ms for behind in positions if behind.committed_ms), default=None),
            )
            for topic, total, positions in found.values()
        ]

    def _members(self, name: str) -> int:
        try:
            return len(group_of(self._broker, name).members)
        except UnknownGroup:
            return 0

    async def _queues(self, topic: Topic, pace: Pace) -> AsyncIterator[Consumer]:
        queue = self._broker.queues.of_topic(topic)
        if queue is not None:
            yield await self._queue("queue", queue.name, topic, queue)
        for one in self._broker.topic_subscriptions.of_topic(topic.namespace, topic.name):
            await pace.step()
            yield await self._queue("subscription", one.entry.name, topic, one.queue)

    async def _queue(self, kind: Kind, name: str, topic: Topic, queue: Queue | None) -> Consumer:
        if queue is None:
            return Consumer(kind, name, topic, 0, 0, None, None)
        await self._broker.queues.open(queue)
        total, position = TotalLag(), 0
        for lane in queue.lanes:
            try:
                lag = await self._meter.measure(lane.log, lane.cursor.first_open())
            except MainstemError:
                continue  # deleted while we looked
            count = max(lane.count, 0)
            total.add(lag._replace(messages=count, seconds=lag.seconds if count else 0.0))
            position += lane.end - count
        # What a queue-born topic has is not deleted before it is settled.
        is_overtaken = not topic.is_queue
        return Consumer(kind, name, topic, queue.consumer_count, position, total.messages, total.seconds,
                        overtaken=queue.lost, is_overtaken=is_overtaken)  # fmt: skip

    # Samples

    def _sampled(self) -> None:
        if self._broker.live.tick % SAMPLE_TICKS == 0 and not self._is_sampling:
            self._is_sampling = True
            self._spawn(self.sample())

    async def sample(self) -> None:
        """Note where everyone is; at most a number of partitions at once."""
        try:
            seen = set()
            for consumer in (await self._look_at_all()).consumers:
                seen.add(consumer.key)
                self._history.note(consumer.key, self._sample_of(consumer))
            self._history.keep(seen)
        finally:
            self._is_sampling = False

    async def _used_queues(self, pace: Pace) -> AsyncIterator[Consumer]:
        """Those that are in memory: one that nobody uses is not loaded for its history."""
        looked_at = 0
        for namespace in list(self._broker.queues.namespaces()):
            for queue in list(self._broker.queues.all(namespace)):
                await pace.step()
                topic = self._broker.topics.named(namespace).get(queue.topic_name or "")
                if topic is not None and queue.lanes and looked_at < PARTITIONS_MAX:
                    looked_at += 1
                    yield await self._queue("queue", queue.name, topic, queue)
        for one in self._broker.topic_subscriptions.all():
            await pace.step()
            found = self._broker.topics.named(one.entry.namespace).get(one.entry.topic)
            if found is not None and one.queue is not None and looked_at < PARTITIONS_MAX:
                looked_at += 1
                yield await self._queue("subscription", one.entry.name, found, one.queue)

    def _sample_of(self, consumer: Consumer) -> LagSample:
        now_ms = self._broker.clock.now_ms()
        return LagSample(now_ms, consumer.position, consumer.messages or 0, consumer.seconds, consumer.moved_ms)


def _overtaken(behind: Behind) -> int:
    """Records between where it goes on and the first that is still there."""
    return max(0, behind.lag.end - behind.lag.messages - behind.offset)


def _retention_ms(topic: Topic) -> int | None:
    if "delete" not in topic.effective.get("cleanup.policy", OPTIONS["cleanup.policy"].default):
        return None
    retention_ms = int(topic.effective.get(RETENTION, OPTIONS[RETENTION].default))
    return retention_ms if retention_ms >= 0 else None


def _order(sort: str) -> Callable[[ConsumerDocument], tuple[float, str, str]]:
    def place(consumer: ConsumerDocument) -> tuple[float, str, str]:
        lag = {"name": 0, "messages": consumer.lag_messages, "seconds": consumer.lag_seconds}[sort]
        return -(lag or 0), consumer.name, consumer.kind

    return place


def _order_of_all(sort: str) -> Callable[[Consumer], tuple[float, str, str, str]]:
    def place(consumer: Consumer) -> tuple[float, str, str, str]:
        lag = {"name": 0, "messages": consumer.messages, "seconds": consumer.seconds}[sort]
        return -(lag or 0), consumer.name, consumer.kind, consumer.topic.name

    return place


def _next_of_all(query: AllConsumersQuery) -> str:
    given: dict[str, str | int] = {"sort": query.sort, "limit": query.limit, "after": query.after + query.limit}
    given |= {name: said for name in ("namespace", "search", "kind") if (said := getattr(query, name))}
    return f"{ALL_CONSUMERS}?{urlencode(given)}"


def _next(topic: str, query: ConsumersQuery) -> str:
    given: dict[str, str | int] = {
        "namespace": query.namespace, "sort": query.sort, "limit": query.limit, "after": query.after + query.limit,
    }  # fmt: skip
    if query.search:
        given["search"] = query.search
    if query.kind:
        given["kind"] = query.kind
    return f"{path_of('v1', 'topics', topic, 'consumers')}?{urlencode(given)}"
