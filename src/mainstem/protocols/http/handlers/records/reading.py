"""GET /v1/topics/{name}/records: by offset, time, key and filter; newest first; and waiting for what comes."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import msgspec

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.log import Edge
from mainstem.broker.queues import InvalidSelector
from mainstem.broker.records.browsing import PARTITIONS_MAX, RecordPage
from mainstem.broker.records.filters import Wanted, compile_filter
from mainstem.broker.schemas.decoding import Decoded
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec import Response
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import path_of
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.records.documents import (
    FollowQuery,
    RecordDocument,
    RecordList,
    RecordsQuery,
    check_partition,
    describe_record,
)
from mainstem.protocols.http.mapping.records.positions import decode_positions, encode_positions
from mainstem.protocols.http.mapping.topic_documents import TopicPath
from mainstem.wire.http.messages import LINES

OK = 200
RECORDS = "/v1/topics/{name}/records"
READS = (errors.UnknownTopic, errors.UnknownPartition, errors.OffsetOutOfRange)

_encode = msgspec.json.Encoder().encode


class RecordHandlers:
    """Reading, one page at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def routes(self) -> list[Route]:
        """What is served here."""
        return [
            Route("GET", RECORDS, self.list_records, {OK: RecordList},
                  steps=TopicPath, query=RecordsQuery, refusals=READS, header_names=("Accept",)),
        ]  # fmt: skip

    async def list_records(self, call: Call) -> RecordList | Response:
        """Records of a topic. With `Accept: application/x-ndjson`, one per line."""
        query: RecordsQuery = call.query
        topic = self._broker.topics.get(call.path.name, query.namespace)
        wanted = filter_of(query)
        is_newest = query.newest is not None
        limit = query.limit if query.newest is None else query.newest
        first = await first_positions(self._broker, topic, query, at=Edge.STABLE if is_newest else Edge.START)
        page = await self._broker.records.page(topic, first, limit, wanted, key=key_of(query), newest_first=is_newest)
        if query.wait_ms and not page.found and page.is_complete and not is_newest:
            page = await self._wait(topic, page, query, wanted)
        pace = Pace(self._broker.clock)
        documents: list[RecordDocument] = []
        decoded = await decoded_values(self._broker, topic, page, query)
        for found, content in zip(page.found, decoded, strict=True):
            documents.append(describe_record(found, content))
            await pace.step()
        position = encode_positions(page.positions)
        following = None if is_newest and page.is_complete else _next(call, position)
        shown = RecordList(
            records=documents,
            scanned=page.scanned,
            unreadable=page.unreadable,
            complete=page.is_complete,
            position=position,
            next=following,
            follow=encode_positions(first) if is_newest and not query.after else None,
        )
        return _lines(shown) if _wants_lines(call) else shown

    async def _wait(self, topic: Topic, page: RecordPage, query: RecordsQuery, wanted: Wanted | None) -> RecordPage:
        """Until a record is there that is wanted, or the time is over."""
        clock = self._broker.clock
        until, scanned = clock.monotonic() + query.wait_ms / 1000, page.scanned
        while not page.found and page.is_complete:
            left = until - clock.monotonic()
            if left <= 0 or not await self._broker.records.wait(topic, page.positions, left):
                break
            page = await self._broker.records.page(topic, page.positions, query.limit, wanted, key=key_of(query))
            scanned += page.scanned
        return page._replace(scanned=scanned)


async def decoded_values(
    broker: Broker, topic: Topic, page: RecordPage, query: RecordsQuery | FollowQuery
) -> Sequence[Decoded | None]:
    """What the values of a page say by their schemas, if that is asked for."""
    if not query.decode:
        return [None] * len(page.found)
    return await broker.decoding.decode(topic.namespace, topic.name, [found.record.value for found in page.found])


def filter_of(query: RecordsQuery | FollowQuery) -> Wanted | None:
    """Which records are wanted. Raises InvalidParameter."""
    try:
        return compile_filter(query.key, query.where)
    except InvalidSelector as error:
        raise errors.InvalidParameter(str(error), "where") from None


def key_of(query: RecordsQuery) -> bytes | None:
    """The one key of the records that are wanted."""
    return None if query.key is None else query.key.encode()


async def first_positions(broker: Broker, topic: Topic, query: RecordsQuery | FollowQuery, at: Edge) -> dict[int, int]:
    """Where a reader begins. Raises InvalidParameter, UnknownPartition, OffsetOutOfRange."""
    given = [name for name in ("offset", "time_ms", "after") if getattr(query, name) not in (None, "")]
    if len(given) > 1:
        raise errors.InvalidParameter(f"either {' or '.join(given)}", given[-1])
    if query.after:
        return decode_positions(query.after, topic)
    if query.partition is not None:
        partitions = [check_partition(topic, query.partition)]
    else:
        partitions = list(range(len(topic.logs)))
    if query.offset is not None:
        if len(partitions) > 1:
            raise errors.InvalidParameter("offset needs partition, as the topic has several", "partition")
        await broker.records.check(topic, partitions[0], query.offset)
        return {partitions[0]: query.offset}
    if len(partitions) > PARTITIONS_MAX:
        raise errors.InvalidParameter(
            f"the topic has {len(partitions)} partitions, of which {PARTITIONS_MAX} can be read at once: name one",
            "partition",
        )
    return await broker.records.positions(topic, partitions, time_ms=query.time_ms, at=at)


def _next(call: Call, position: str) -> str:
    given = {
        name: value
        for name, value in msgspec.structs.asdict(call.query).items()
        if value not in (None, "", False) and name not in ("offset", "time_ms", "partition", "after")
    }
    path = path_of("v1", "topics", call.path.name, "records")
    given = {name: "true" if value is True else value for name, value in given.items()}
    return f"{path}?{urlencode(given | {'after': position})}"


def _wants_lines(call: Call) -> bool:
    return LINES in (call.request.header(b"accept") or "")


def _lines(shown: RecordList) -> Response:
    body = b"".join([_encode(record) + b"\n" for record in shown.records])
    headers = (
        ("cache-control", "no-store"),
        ("mainstem-position", shown.position),
        ("mainstem-scanned", str(shown.scanned)),
        ("mainstem-complete", "true" if shown.complete else "false"),
        *((("mainstem-follow", shown.follow),) if shown.follow is not None else ()),
    )
    return Response(OK, body, LINES, headers)
