"""Finds a message: by its place, its key, a header, or the id of its trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mainstem.broker import schedules
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.records.browsing import FoundRecord
from mainstem.broker.records.filters import Wanted
from mainstem.broker.trace.lives import TRACEPARENT, Lives, header_of, origin_in
from mainstem.broker.trace.stations import RecordPlace, Station, Trace, in_order
from mainstem.coordination.errors import UnknownTopic
from mainstem.model.errors import MainstemError, OffsetOutOfRange
from mainstem.storage.contract import Edge
from mainstem.wire.record_batch import Record

if TYPE_CHECKING:
    from mainstem.broker.broker import Broker

TRACE_ID = re.compile(r"(?:[0-9a-f]{2}-)?([0-9a-f]{32})(?:-[0-9a-f]{16}(?:-[0-9a-f]{2})?)?", re.IGNORECASE)
PLACE = re.compile(r"(.+):(\d{1,9}):(\d{1,18})", re.DOTALL)
ID_HEADERS = ("message-id", "message_id", "mainstem-message-id", "ce_id")
"""Headers under which publishers name a message."""
INTERNAL = ("__", "stage:/")
CONTEXTS_MAX = 3
FOUND_MAX = 20
"""Records of one message."""
SECONDS_MAX = 2.0
"""How long one search looks; each topic takes 100 ms or 10,000 records at most."""
PAGES_OF_A_TOPIC = 20
"""Where only one topic is looked through."""


class Sought(NamedTuple):
    """What is looked for."""

    text: str
    topic: str = ""
    namespace: str = "default"
    is_key: bool = False


class Search:
    """Of messages."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lives = Lives(broker)

    async def trace(self, sought: Sought) -> Trace:
        """All that is known of the message. Raises UnknownTopic, OffsetOutOfRange."""
        look = _Look(self._broker, sought.namespace)
        place = PLACE.fullmatch(sought.text)
        if place is not None and not sought.is_key:
            topic = self._broker.topics.get(place[1], sought.namespace)
            record = await look.at(topic, int(place[2]), int(place[3]))
            found = [(topic, record)]
        else:
            found = await look.everywhere(_matching(sought), sought.topic)
        stations: list[Station] = []
        records = []
        seen: set[RecordPlace] = set()
        for topic, one in await look.with_lives(found, self._lives):
            where = self._lives.place_of(topic, one)
            if where not in seen:
                seen.add(where)
                records.append(self._lives.describe(topic, one))
                stations += await self._lives.stations(topic, one)
        contexts = {one.traceparent for one in records if one.traceparent}
        stations += await self._scheduled(contexts | ({sought.text} if TRACE_ID.fullmatch(sought.text) else set()))
        return Trace(records, in_order(_edits(stations)), look.scanned, look.is_complete)

    async def _scheduled(self, contexts: set[str]) -> list[Station]:
        """What waits for its time under the same trace."""
        stations: list[Station] = []
        for context in sorted(contexts)[:CONTEXTS_MAX]:
            if not self._broker.schedules.pending_count:
                break
            search = schedules.Search(header=(TRACEPARENT, context.encode()))
            page = await self._broker.schedules.pending(search, None, FOUND_MAX)
            for one in page.found:
                target = one.letter.target
                name = (
                    target.topic if target.exchange is None else f"{target.exchange} ({', '.join(target.routing_keys)})"
                )
                stations.append(Station("scheduled", None, one.due_ms, name, f"due then, id {one.id.hex()}"))
        return stations


class _Look:
    """One search: how much it has cost."""

    def __init__(self, broker: Broker, namespace: str) -> None:
        self._broker = broker
        self._namespace = namespace
        self._until = broker.clock.monotonic() + SECONDS_MAX
        self.scanned = 0
        self.is_complete = True

    async def at(self, topic: Topic, partition: int, offset: int) -> FoundRecord:
        """The record at a place. Raises UnknownTopic, OffsetOutOfRange."""
        if partition >= len(topic.logs):
            raise UnknownTopic(f"topic {topic.name} has {len(topic.logs)} partitions")
        await self._broker.records.check(topic, partition, offset)
        page = await self._broker.records.page(topic, {partition: offset}, 1)
        self.scanned += page.scanned
        if not page.found or page.found[0].record.offset != offset:
            raise OffsetOutOfRange(offset, page.positions.get(partition, 0), page.positions.get(partition, 0))
        return page.found[0]

    async def everywhere(self, wanted: Wanted, only: str) -> list[tuple[Topic, FoundRecord]]:
        """The newest that fit, of one topic or of all."""
        topics = self._broker.topics.named(self._namespace)
        chosen = [topics[only]] if only in topics else [] if only else list(topics.values())
        if only and not chosen:
            raise UnknownTopic(f"no topic {only}")
        found: list[tuple[Topic, FoundRecord]] = []
        for topic in chosen:
            if not only and topic.name.startswith(INTERNAL):
                continue
            found += await self.newest(topic, wanted, PAGES_OF_A_TOPIC if only else 1)
            if len(found) >= FOUND_MAX:
                self.is_complete = False
                break
            if self._is_over():
                self.is_complete = False
                break
        return found[:FOUND_MAX]

    async def newest(self, topic: Topic, wanted: Wanted, pages: int) -> list[tuple[Topic, FoundRecord]]:
        """The newest records of a topic that fit."""
        partitions = list(range(min(len(topic.logs), 256)))
        found: list[tuple[Topic, FoundRecord]] = []
        try:
            positions = await self._broker.records.positions(topic, partitions, at=Edge.STABLE)
            for _ in range(pages):
                page = await self._broker.records.page(topic, positions, FOUND_MAX, wanted, newest_first=True)
                found += [(topic, one) for one in page.found]
                self.scanned += page.scanned
                positions = page.positions
                if page.is_complete or len(found) >= FOUND_MAX:
                    return found
                if self._is_over():
                    break
        except MainstemError:
            return found  # deleted while we looked
        self.is_complete = False
        return found

    async def with_lives(self, found: list[tuple[Topic, FoundRecord]], lives: Lives) -> list[tuple[Topic, FoundRecord]]:
        """The same with the lives before and after: where each died, and as what it came back."""
        every = list(found)
        for first in dict.fromkeys(lives.first_place(topic, one) for topic, one in found):
            topics = self._broker.topics.named(first.namespace)
            topic = topics.get(first.topic)
            if topic is None:
                continue
            if not any(lives.place_of(known, one) == first for known, one in every):
                try:
                    every.append((topic, await self.at(topic, first.partition, first.offset)))
                except MainstemError:
                    pass  # retention has taken it

            def descends(_: int, record: Record, first: RecordPlace = first) -> bool:
                origin = origin_in(record)
                return origin is not None and (origin.topic, origin.partition, origin.offset) == first[1:]

            for later in self._later_topics(topic):
                every += await self.newest(later, descends, 1)
        return every

    def _later_topics(self, topic: Topic) -> list[Topic]:
        """Where dead letters of a topic go, and come back to."""
        queue = self._broker.queues.of_topic(topic)
        target = None if queue is None else queue.rules.dead_letter
        if queue is None or target is None:
            return []
        letters = self._broker.queues.find(queue.namespace, target.routing_key or queue.name)
        dead = None if letters is None else self._broker.topics.named(queue.namespace).get(letters.topic_name or "")
        return [topic] if dead is None else [dead, topic]

    def _is_over(self) -> bool:
        return self._broker.clock.monotonic() > self._until


def _matching(sought: Sought) -> Wanted:
    if sought.is_key:
        key = sought.text.encode()
        return lambda _, record: record.key == key
    trace_id = TRACE_ID.fullmatch(sought.text)
    if trace_id is not None:
        return _has_trace(trace_id[1].lower().encode())
    wanted = sought.text.encode()

    def matches(_: int, record: Record) -> bool:
        if record.key == wanted:
            return True
        return any(content == wanted and name.lower() in ID_HEADERS for name, content in record.headers)

    return matches


def _has_trace(trace_id: bytes) -> Callable[[int, Record], bool]:
    def matches(_: int, record: Record) -> bool:
        content = header_of(record, TRACEPARENT)
        return content is not None and trace_id in content.lower()

    return matches


def _edits(stations: list[Station]) -> list[Station]:
    """A dead letter at a later place of the same death is what an edit has made of it."""
    deaths: dict[tuple[str, int | None], list[Station]] = {}
    for one in stations:
        if one.what == "dead":
            deaths.setdefault((one.who, one.time_ms), []).append(one)
    edited = {
        one: Station("edited", one.place, None, "", f"as the letter at {one.place.partition}:{one.place.offset}")
        for lives in deaths.values()
        for one in sorted(lives, key=lambda one: one.place.offset if one.place else 0)[1:]
        if one.place is not None
    }
    return [edited.get(one, one) for one in stations]
