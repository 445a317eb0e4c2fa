"""Topics: list, create, show, alter, delete; and positions in their partitions."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic, Topic
from mainstem.broker.log import Edge, ReadResult, TimeAfter
from mainstem.model.errors import MainstemError, OffsetOutOfRange
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec import Response, encode_json
from mainstem.protocols.http.handlers.groups.lag import LagMeter
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import Page, path_of, smallest
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.documents import NoQuery
from mainstem.protocols.http.mapping.topic_documents import (
    PartitionDocument,
    PartitionFacts,
    PartitionPath,
    PartitionsQuery,
    PastQuery,
    Position,
    PositionQuery,
    TopicChange,
    TopicDocument,
    TopicPage,
    TopicPast,
    TopicPath,
    TopicsQuery,
    TopicSummary,
    TopicWish,
    config_changes,
    config_texts,
    describe_config,
    kind_of,
)

OK, CREATED, NO_CONTENT = 200, 201, 204
TOPICS = "/v1/topics"
TOPIC = "/v1/topics/{name}"
PARTITION = "/v1/topics/{name}/partitions/{partition}"

SIZED_AT_ONCE = 32
"""Topics of a list, between two looks at the clock."""
SIZED_PARTITIONS_MAX = 1_000
"""Of one topic, for its size in a list."""

PAST_LOOKS_MAX = 2_000
"""At the index of times, for one picture of the past."""

WRITES = (errors.StorageFull, errors.Overloaded, errors.Unavailable)
"""What any change may meet."""


class TopicHandlers:
    """/v1/topics and below."""

    def __init__(self, broker: Broker, lag: LagMeter) -> None:
        self._broker = broker
        self._topics = broker.topics
        self._lag = lag

    def routes(self) -> list[Route]:
        """What is served here."""
        unknown = (errors.UnknownTopic,)
        values = (errors.InvalidPartitionCount, errors.InvalidConfig)
        creation = (errors.InvalidTopicName, *values, errors.TopicExists, *WRITES)
        position = (*unknown, errors.UnknownPartition, errors.OffsetOutOfRange)
        shown = {OK: TopicDocument}
        return [
            Route("GET", TOPICS, self.list_topics, {OK: TopicPage}, query=TopicsQuery),
            Route("POST", TOPICS, self.create_topic, {CREATED: TopicDocument},
                  query=NoQuery, content=TopicWish, refusals=creation),
            Route("GET", TOPIC, self.get_topic, shown, steps=TopicPath, query=PartitionsQuery, refusals=unknown),
            Route("GET", TOPIC + "/past", self.get_past, {OK: TopicPast}, steps=TopicPath, query=PastQuery, refusals=unknown),
            Route("PATCH", TOPIC, self.alter_topic, shown,
                  steps=TopicPath, query=NoQuery, content=TopicChange, refusals=(*unknown, *values, *WRITES)),
            Route("DELETE", TOPIC, self.delete_topic, {NO_CONTENT: None},
                  steps=TopicPath, query=NoQuery, refusals=(*unknown, *WRITES)),
            Route("GET", PARTITION, self.get_partition, {OK: PartitionDocument},
                  steps=PartitionPath, query=PositionQuery, refusals=position),
        ]  # fmt: skip

    # Topics

    async def list_topics(self, call: Call) -> TopicPage:
        """Topics by name or size, searched and sorted here."""
        query: TopicsQuery = call.query
        pace = Pace(self._broker.clock)
        topics = self._topics.named(query.namespace)
        found: list[str] = []
        for name, topic in list(topics.items()):
            if query.search in name and query.kind in (None, kind_of(topic)):
                found.append(name)
            await pace.step()
        if query.sort == "name":
            names, more = await smallest(found, query.after, query.limit, pace)
            after = names[-1] if names else ""
        else:
            names, more, after = await self._largest(topics, found, query, pace)
        shown = []
        for name in names:
            known = topics.get(name)
            if known is not None:
                records, size = await self._size(known)
                shown.append(TopicSummary(name, str(known.id), len(known.logs), kind_of(known), records, size))
                await pace.step()
        return TopicPage(shown, _next_topics(query, after) if more else None)

    async def _largest(
        self, topics: Mapping[str, Topic], found: list[str], query: TopicsQuery, pace: Pace
    ) -> tuple[list[str], bool, str]:
        """Those behind the first `after`, and where to go on."""
        if query.after and not (query.after.isdecimal() and len(query.after) < 9):
            raise errors.InvalidParameter("after is a number where topics are sorted by size", "after")
        skipped = int(query.after or 0)
        sizes: list[tuple[int, str]] = []
        for number, name in enumerate(found):
            topic = topics.get(name)
            if topic is not None:
                size = (
                    len(topic.logs) if query.sort == "partitions" else (await self._size(topic))[query.sort == "bytes"]
                )
                sizes.append((-size, name))
            if number % SIZED_AT_ONCE == 0:
                await pace.step()
        line = heapq.nsmallest(skipped + query.limit + 1, sizes)
        names = [name for _, name in line[skipped : skipped + query.limit]]
        return names, len(line) > skipped + query.limit, str(skipped + query.limit)

    async def _size(self, topic: Topic) -> tuple[int, int]:
        """Records and bytes."""
        records = size = 0
        for log in topic.logs[:SIZED_PARTITIONS_MAX]:
            try:
                facts = await self._read_facts(log)
            except MainstemError:
                continue  # deleted or trimmed while we looked
            records += facts.end - facts.start
            size += facts.stored_bytes
        return records, size

    async def _read_facts(self, log: int) -> ReadResult:
        """Where the log begins and ends, and its bytes."""
        try:
            return await self._broker.read(log, 0, 0)
        except OffsetOutOfRange as error:
            return await self._broker.read(log, error.start, 0)

    async def get_past(self, call: Call) -> TopicPast:
        """How many records came when. Of a topic with many partitions, the first are looked at."""
        query: PastQuery = call.query
        topic = self._topics.get(call.path.name, query.namespace)
        pace, logs = Pace(self._broker.clock), topic.logs[: PAST_LOOKS_MAX // query.parts or 1]
        until_ms = self._broker.clock.now_ms() if query.until_ms is None else query.until_ms
        from_ms = await self._first_ms(logs, until_ms) if query.from_ms is None else query.from_ms
        width = max(1, until_ms - from_ms) / query.parts
        bounds = [from_ms + round(width * part) for part in range(query.parts)] + [until_ms + 1]
        records = [0] * query.parts
        for log in logs:
            end = (await self._broker.find(log, Edge.END)).offset
            places = []
            for bound in bounds:
                offset = (await self._broker.find(log, TimeAfter(bound))).offset
                places.append(end if offset < 0 else offset)
                await pace.step()
            for part in range(query.parts):
                records[part] += max(0, places[part + 1] - places[part])
        return TopicPast(from_ms, until_ms, records, len(logs))

    async def _first_ms(self, logs: Sequence[int], until_ms: int) -> int:
        first = until_ms
        for log in logs:
            start = (await self._broker.find(log, Edge.START)).offset
            lag = await self._lag.measure(log, start)
            if lag.timestamp_ms is not None:
                first = min(first, lag.timestamp_ms)
        return first

    async def create_topic(self, call: Call) -> Response:
        """Create a topic. Answered when that is durable."""
        wish: TopicWish = call.content
        config = config_texts(wish.config)
        (outcome,) = await self._topics.create([NewTopic(wish.name, wish.partitions, config)])
        if isinstance(outcome, MainstemError):
            raise outcome
        document = await self._describe(outcome, PartitionsQuery())
        return encode_json(CREATED, document, (("location", path_of("v1", "topics", outcome.name)),))

    async def get_topic(self, call: Call) -> TopicDocument:
        """A topic: its partitions, and every configuration with its source."""
        return await self._describe(self._topics.get(call.path.name), call.query)

    async def alter_topic(self, call: Call) -> TopicDocument:
        """Add partitions, change the configuration. What is not named stays as it is."""
        name, change = call.path.name, call.content
        changes = config_changes(change.config)

        def revise(config: dict[str, str]) -> dict[str, str]:
            return {key: value for key, value in {**config, **changes}.items() if value is not None}

        await self._topics.alter(name, change.partitions, revise)
        return await self._describe(self._topics.get(name), PartitionsQuery())

    async def delete_topic(self, call: Call) -> None:
        """Delete a topic with all that is in it."""
        await self._topics.delete(self._topics.get(call.path.name))

    async def _describe(self, topic: Topic, query: PartitionsQuery) -> TopicDocument:
        pace = Pace(self._broker.clock)
        first = query.after + 1
        partitions = []
        for partition, log in enumerate(topic.logs[first : first + query.limit], first):
            partitions.append(await self._facts(partition, log))
            await pace.step()
        more = first + query.limit < len(topic.logs)
        page = Page(path_of("v1", "topics", topic.name), query.limit)
        return TopicDocument(
            name=topic.name,
            id=str(topic.id),
            partition_count=len(topic.logs),
            partitions=partitions,
            next=page.after(first + query.limit - 1) if more else None,
            config=describe_config(topic),
        )

    async def _facts(self, partition: int, log: int) -> PartitionFacts:
        facts = await self._read_facts(log)
        return PartitionFacts(partition, facts.start, facts.end, facts.stable, facts.stored_bytes)

    # Partitions

    async def get_partition(self, call: Call) -> PartitionDocument:
        """A partition; with `offset` or `time_ms`, also what lies there and behind it."""
        topic, number = self._topics.get(call.path.name), call.path.partition
        if number >= len(topic.logs):
            raise errors.UnknownPartition(f"topic {topic.name} has {len(topic.logs)} partitions")
        log = topic.logs[number]
        facts = await self._facts(number, log)
        position = await self._position(log, call.query, facts.end)
        return PartitionDocument(topic.name, number, facts.start, facts.end, facts.stable, facts.bytes, position)

    async def _position(self, log: int, query: PositionQuery, end: int) -> Position | None:
        offset = query.offset
        if query.time_ms is not UNSET:
            if offset is not UNSET:
                raise errors.InvalidParameter("either offset or time_ms", "time_ms")
            offset = (await self._broker.find(log, TimeAfter(query.time_ms))).offset
            if offset < 0:
                return Position(-1, None, 0, 0.0)
        elif offset is UNSET:
            return None
        elif offset > end:
            raise errors.OffsetOutOfRange(f"offset {offset} is above the end, {end}")
        lag = await self._lag.measure(log, offset)
        return Position(offset, lag.timestamp_ms, lag.messages, lag.seconds)


def _next_topics(query: TopicsQuery, after: str) -> str:
    defaults = TopicsQuery()
    given = {
        name: value
        for name, value in msgspec.structs.asdict(query).items()
        if value != getattr(defaults, name) or name == "limit"
    }
    return f"{TOPICS}?{urlencode(given | {'after': after})}"
