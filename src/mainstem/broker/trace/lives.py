"""One record in the log, and what became of it: who has read it, what its queue did with it, how it died and came back.

A dead letter says where it came from; so all later lives of a message carry the place of its first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.records.browsing import FoundRecord
from mainstem.broker.trace.chronicle import Deed, Party
from mainstem.broker.trace.stations import RecordPlace, Station, TracedRecord, What
from mainstem.coordination.dead_letters.deaths import Origin, decode_origin
from mainstem.model.header_names import ORIGIN_HEADER, REDRIVEN_HEADER
from mainstem.wire.messages.message import Message
from mainstem.wire.record_batch import Record, encode_headers

if TYPE_CHECKING:
    from mainstem.broker.broker import Broker
    from mainstem.broker.queues import Queue

TRACEPARENT = "traceparent"
RECORD = "record"
"""Over what a record was published that no protocol of queues has marked, as far as its headers tell."""
CLOCKS_APART_MS = 5_000
"""A producer's clock may be so much ahead of ours."""


def text_of(content: bytes | None) -> str:
    """A header as text."""
    return "" if content is None else content.decode("utf-8", "replace")


def header_of(record: Record, name: str) -> bytes | None:
    """The first header of this name."""
    return next((content for known, content in record.headers if known == name), None)


def origin_in(record: Record) -> Origin | None:
    """Where a dead letter, or what was sent back, comes from."""
    content = header_of(record, ORIGIN_HEADER)
    try:
        return None if content is None else decode_origin(content)
    except ValueError:
        return None


class Lives:
    """Looks at single records, from all sides."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def place_of(self, topic: Topic, found: FoundRecord) -> RecordPlace:
        """Where it is."""
        return RecordPlace(topic.namespace, topic.name, found.partition, found.record.offset)

    def first_place(self, topic: Topic, found: FoundRecord) -> RecordPlace:
        """Where its message was first: where it died, if it did."""
        origin = origin_in(found.record)
        if origin is None or origin.topic is None:
            return self.place_of(topic, found)
        return RecordPlace(origin.namespace, origin.topic, origin.partition, origin.offset)

    def describe(self, topic: Topic, found: FoundRecord) -> TracedRecord:
        """The record in short."""
        record = found.record
        return TracedRecord(
            self.place_of(topic, found), record.timestamp_ms, record.key, text_of(header_of(record, TRACEPARENT))
        )

    async def stations(self, topic: Topic, found: FoundRecord) -> list[Station]:
        """All that is known of one record."""
        deeds = await self._deeds(topic, found)
        publisher = next((deed.party for deed in deeds if deed.did == "p"), None)
        stations = [
            _signed(one, publisher) if publisher is not None and one.what == "published" else one
            for one in self._published(topic, found)
        ]
        place = self.place_of(topic, found)
        for deed in deeds:
            if deed.did == "g":
                stations.append(Station("given", place, deed.time_ms, deed.name, f"to {_shown(deed.party)}"))
            elif deed.did == "c":
                stations.append(Station("read", place, deed.time_ms, deed.name, _shown(deed.party)))
        timed = {deed.name for deed in deeds if deed.did == "c"}
        stations += [one for one in self._groups(topic, found) if one.what != "read" or one.who not in timed]
        queue = self._broker.queues.of_topic(topic)
        if queue is not None:
            await self._broker.queues.open(queue)
            stations += self._queue(topic, found, queue, queue.name)
        for one in self._broker.topic_subscriptions.of_topic(topic.namespace, topic.name):
            if one.queue is not None:
                stations += self._queue(topic, found, one.queue, one.entry.name)
        return stations

    async def _deeds(self, topic: Topic, found: FoundRecord) -> list[Deed]:
        """What connections did with it."""
        since_ms = min(found.record.timestamp_ms, self._broker.clock.now_ms()) - CLOCKS_APART_MS
        deeds, _ = await self._broker.chronicle.deeds(topic.logs[found.partition], found.record.offset, since_ms)
        return deeds

    def _published(self, topic: Topic, found: FoundRecord) -> Iterator[Station]:
        record, place = found.record, self.place_of(topic, found)
        time_ms = record.timestamp_ms if record.timestamp_ms >= 0 else None
        origin = origin_in(record)
        if origin is None:
            yield Station("published", place, time_ms, self._protocol(record), self._address(record))
            return
        was = RecordPlace(origin.namespace, origin.topic or origin.queue, origin.partition, origin.offset)
        for number, attempt in enumerate(origin.attempts, 1):
            yield Station(
                "retry", was, attempt.time_ms, origin.queue, f"attempt {number}: {attempt.error or 'no reason given'}"
            )
        detail = f"{origin.reason} in {origin.queue}" + (f": {origin.error}" if origin.error else "")
        is_back = header_of(record, REDRIVEN_HEADER) is not None and topic.name == was.topic
        if is_back:
            times = text_of(header_of(record, REDRIVEN_HEADER))
            yield Station("redriven", place, time_ms, origin.queue, f"sent back, {times} times in all")
        else:
            yield Station("dead", place, origin.died_ms, origin.queue, detail)

    def _protocol(self, record: Record) -> str:
        """Over what it was published, as far as its headers tell."""
        names = {name for name, _ in record.headers}
        return self._broker.envelopes.origin_by_names(names) or RECORD

    def _address(self, record: Record) -> str:
        block = encode_headers(list(record.headers))
        message = Message(None, record.offset, record.timestamp_ms, record.key, block, record.value or b"", 0)
        if self._broker.envelopes.origin_of(message) is None:
            return ""
        address = self._broker.envelopes.address_of(message)
        return f"to exchange {address.exchange or '(default)'} with key {', '.join(address.keys)}"

    def _groups(self, topic: Topic, found: FoundRecord) -> Iterator[Station]:
        broker, place, offset = self._broker, self.place_of(topic, found), found.record.offset
        for name in broker.groups.names():
            for at, committed in broker.groups.offsets(name).items():
                if at.topic == topic.id and at.partition == found.partition:
                    if committed.offset > offset:
                        yield Station("read", place, None, name, f"committed up to {committed.offset}")
                    else:
                        yield Station("unread", place, None, name, f"{offset - committed.offset} records before it")
        log = topic.logs[found.partition]
        for name in broker.share_groups.names():
            cursor = broker.share_groups.subscriptions.cursors(name).get(log)
            if cursor is not None:
                what: What = "settled" if cursor.is_settled(offset) else "unread"
                yield Station(what, place, None, name, "share group")

    def _queue(self, topic: Topic, found: FoundRecord, queue: Queue, name: str) -> Iterator[Station]:
        place, offset, log = self.place_of(topic, found), found.record.offset, topic.logs[found.partition]
        for lane in queue.lanes:
            if lane.log != log:
                continue
            if offset >= lane.end or lane.cursor.is_settled(offset):
                if offset < lane.end:
                    yield Station("settled", place, None, name)
                continue
            for number, attempt in enumerate(lane.cursor.attempts.get(offset, ()), 1):
                yield Station(
                    "retry", place, attempt.time_ms, name, f"attempt {number}: {attempt.error or 'no reason given'}"
                )
            counts = lane.cursor.counts.get(offset)
            before = "" if counts is None else f"after {counts.deliveries} deliveries, {counts.failures} failed"
            yield Station("given" if offset in lane.unsettled else "waits", place, None, name, before)


def _shown(party: Party) -> str:
    library = " ".join(text for text in (party.library, party.version) if text)
    user = "" if party.user in ("", "ANONYMOUS") else f"user {party.user}"
    facts = ", ".join(text for text in (party.protocol, library, user, party.address) if text)
    return f"{party.client or party.id} ({facts})"


def _signed(published: Station, publisher: Party) -> Station:
    detail = ", ".join(text for text in (f"by {_shown(publisher)}", published.detail) if text)
    return published._replace(who=publisher.protocol if published.who == RECORD else published.who, detail=detail)
