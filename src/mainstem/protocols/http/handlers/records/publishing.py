"""POST /v1/topics/{name}/records: JSON, one record per line, text or bytes; durable when answered, once where a key says so."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.records.once import KeyReused, OnceKey, once_key
from mainstem.broker.records.publication import NewRecord
from mainstem.model.errors import BatchTooLarge, CommitTooLarge, InvalidRecords
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec.json_content import decode_json, media_type_of
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.records.reading import RECORDS
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.records.documents import (
    KEY_CHARACTERS_MAX,
    Publication,
    PublishQuery,
    RecordsWish,
    RecordWish,
    check_partition,
    describe_position,
    due_time,
    to_record,
)
from mainstem.protocols.http.mapping.topic_documents import TopicPath
from mainstem.wire.http.messages import LINES, OCTETS, PLAIN_TEXT

OK = 200
HEADER_PREFIX = b"mainstem-header-"
ONCE_HEADER = b"idempotency-key"
SINGLE = ("key", "partition", "time_ms", "after_ms", "due_ms")
"""Parameters of a record that is sent as it is."""


class PublishHandlers:
    """Publishing to topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def routes(self) -> list[Route]:
        """What is served here."""
        refusals = (
            errors.UnknownTopic, errors.UnknownPartition, errors.RefusedRecord, errors.RecordTooLarge,
            errors.KeyReused, errors.InvalidSchedule, errors.StorageFull, errors.Overloaded, errors.Unavailable,
        )  # fmt: skip
        return [
            Route("POST", RECORDS, self.publish_records, {OK: Publication}, steps=TopicPath, query=PublishQuery,
                  content=RecordsWish, refusals=refusals, media_types=(LINES, PLAIN_TEXT, OCTETS),
                  header_names=("Idempotency-Key", "Mainstem-Header-*")),
        ]  # fmt: skip

    async def publish_records(self, call: Call) -> Publication:
        """Publish records together. Answered when they are durable."""
        topic = self._broker.topics.get(call.path.name, call.query.namespace)
        records = await self._records(call, topic)
        once = _once(call, topic)
        try:
            published = await self._broker.publications.publish(topic, records, once)
        except KeyReused as error:
            raise errors.KeyReused(str(error)) from None
        except BatchTooLarge as error:
            raise errors.RecordTooLarge(str(error)) from None
        except CommitTooLarge as error:
            raise errors.BodyTooLarge(str(error)) from None
        except InvalidRecords as error:
            pointer = f"/records/{error.places[0]}" if error.places else ""
            raise errors.RefusedRecord(str(error), pointer) from None
        return Publication([describe_position(found) for found in published.positions], published.is_repeated)

    async def _records(self, call: Call, topic: Topic) -> list[NewRecord]:
        kind = media_type_of(call.request)
        if kind in (PLAIN_TEXT, OCTETS):
            return [self._single(call, topic)]
        for name in SINGLE:
            if getattr(call.query, name) is not None:
                raise errors.InvalidParameter(f"{name} belongs into the content of such a record", name)
        pace, now_ms = Pace(self._broker.clock), self._broker.clock.now_ms()
        records: list[NewRecord] = []
        if kind == LINES:
            lines = call.request.body.splitlines()
            for number, line in enumerate(lines):
                if line.strip():
                    pointer = f"/{number}"
                    records.append(to_record(decode_json(line, RecordWish, pointer), topic, pointer, now_ms))
                    await pace.step()
            if not records:
                raise errors.InvalidContent("there is no record in the content")
            return records
        for number, wish in enumerate(call.content.records):
            records.append(to_record(wish, topic, f"/records/{number}", now_ms))
            await pace.step()
        return records

    def _single(self, call: Call, topic: Topic) -> NewRecord:
        query: PublishQuery = call.query
        headers = [
            (name.removeprefix(HEADER_PREFIX).decode("latin-1"), content)
            for name, content in call.request.headers
            if name.startswith(HEADER_PREFIX)
        ]
        return NewRecord(
            key=None if query.key is None else query.key.encode(),
            value=call.request.body,
            headers=headers,
            partition=check_partition(topic, query.partition),
            time_ms=-1 if query.time_ms is None else query.time_ms,
            due_ms=due_time(query.after_ms, query.due_ms, self._broker.clock.now_ms()),
        )


def _once(call: Call, topic: Topic) -> OnceKey | None:
    key = call.request.header(ONCE_HEADER)
    if key is None:
        return None
    if not 0 < len(key) <= KEY_CHARACTERS_MAX:
        raise errors.InvalidParameter(f"Idempotency-Key has 1 to {KEY_CHARACTERS_MAX} characters", "Idempotency-Key")
    content = call.request.query.encode() + b"\0" + call.request.body
    return once_key(topic.namespace, f"{topic.name}/{topic.id}", key, content)
