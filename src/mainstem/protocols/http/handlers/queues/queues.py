"""Queues: list, describe, rewind, pause, purge; their messages; and dead letters on their way back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.dead_letters.browsing import Where, letter_filter
from mainstem.broker.dead_letters.redrives import Redrive, RedriveWish
from mainstem.broker.queues import InvalidSelector, Message, Put, Queue, decode_headers, encode_headers
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec import Response, encode_json
from mainstem.protocols.http.handlers.groups.lag import LagMeter
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import path_of, smallest
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.contents import Bytes, Content, encode_content
from mainstem.protocols.http.mapping.documents import NoQuery
from mainstem.protocols.http.mapping.queue_documents import (
    INTERNAL_PREFIX,
    Count,
    LaneDocument,
    LetterPlace,
    LetterPlaces,
    LettersQuery,
    MessageChange,
    MessagePage,
    MessagePath,
    MessagesQuery,
    QueueChange,
    QueueDeletion,
    QueueDocument,
    QueuePage,
    QueuePath,
    QueueQuery,
    QueuesQuery,
    QueueSummary,
    QueueWish,
    RedeliverWish,
    RedriveContent,
    RedriveDocument,
    RedriveList,
    RedrivePath,
    SeekPreview,
    SeekQuery,
    SeekWish,
    changed_properties,
    decode_place,
    describe_message,
    describe_redrive,
    describe_rules,
    encode_place,
    to_properties,
)

OK, CREATED, ACCEPTED, NO_CONTENT = 200, 201, 202, 204
QUEUES = "/v1/queues"
QUEUE = "/v1/queues/{name}"
MESSAGES = "/v1/queues/{name}/messages"
MESSAGE = "/v1/queues/{name}/messages/{place}"
LETTERS = "/v1/dead-letters"
SOURCES_SHOWN_MAX = 100
REDRIVES = "/v1/redrives"
REDRIVE = "/v1/redrives/{number}"
WRITES = (errors.StorageFull, errors.Overloaded, errors.Unavailable)


class QueueHandlers:
    """/v1/queues and /v1/redrives."""

    def __init__(self, broker: Broker, lag: LagMeter) -> None:
        self._broker = broker
        self._queues = broker.queues
        self._lag = lag

    def routes(self) -> list[Route]:
        """What is served here."""
        unknown = (errors.UnknownQueue,)
        changes = (*unknown, *WRITES)
        shown = {OK: QueueDocument}
        return [
            Route("GET", QUEUES, self.list_queues, {OK: QueuePage}, query=QueuesQuery),
            Route("POST", QUEUES, self.create_queue, {CREATED: QueueDocument}, query=NoQuery, content=QueueWish,
                  refusals=(errors.InvalidQueue, errors.QueueDiffers, errors.QueueBusy, *WRITES)),
            Route("DELETE", QUEUE, self.delete_queue, {NO_CONTENT: None}, steps=QueuePath, query=QueueDeletion,
                  refusals=(errors.QueueBusy, *changes)),
            Route("GET", QUEUE, self.get_queue, shown, steps=QueuePath, query=QueueQuery, refusals=unknown),
            Route("PATCH", QUEUE, self.change_queue, shown, steps=QueuePath, query=QueueQuery, content=QueueChange,
                  refusals=(errors.InvalidQueue, *changes)),
            Route("POST", QUEUE + "/seek", self.seek_queue, shown, steps=QueuePath, query=QueueQuery,
                  content=SeekWish, refusals=(errors.OffsetOutOfRange, *changes)),
            Route("GET", QUEUE + "/seek", self.preview_seek, {OK: SeekPreview}, steps=QueuePath, query=SeekQuery,
                  refusals=(errors.OffsetOutOfRange, errors.InvalidParameter, *unknown)),
            Route("GET", LETTERS, self.list_dead_letters, {OK: LetterPlaces}, query=LettersQuery),
            Route("POST", QUEUE + "/redeliver", self.redeliver_messages, {OK: Count}, steps=QueuePath,
                  query=QueueQuery, content=RedeliverWish, refusals=(errors.OffsetOutOfRange, *changes)),
            Route("POST", QUEUE + "/purge", self.purge_queue, {OK: Count},
                  steps=QueuePath, query=QueueQuery, refusals=changes),
            Route("GET", MESSAGES, self.list_messages, {OK: MessagePage},
                  steps=QueuePath, query=MessagesQuery, refusals=unknown),
            Route("PATCH", MESSAGE, self.edit_message, {NO_CONTENT: None}, steps=MessagePath, query=QueueQuery,
                  content=MessageChange, refusals=(errors.UnknownMessage, errors.QueueBusy, *changes)),
            Route("DELETE", MESSAGE, self.delete_message, {NO_CONTENT: None}, steps=MessagePath, query=QueueQuery,
                  refusals=(errors.UnknownMessage, errors.QueueBusy, *changes)),
            Route("POST", QUEUE + "/redrive", self.start_redrive, {ACCEPTED: RedriveDocument}, steps=QueuePath,
                  query=QueueQuery, content=RedriveContent, refusals=changes),
            Route("GET", REDRIVES, self.list_redrives, {OK: RedriveList}, query=NoQuery),
            Route("GET", REDRIVE, self.get_redrive, {OK: RedriveDocument},
                  steps=RedrivePath, query=NoQuery, refusals=(errors.UnknownRedrive,)),
            Route("DELETE", REDRIVE, self.cancel_redrive, {OK: RedriveDocument},
                  steps=RedrivePath, query=NoQuery, refusals=(errors.UnknownRedrive, *WRITES)),
        ]  # fmt: skip

    def _queue(self, call: Call) -> Queue:
        queue = self._queues.find(call.query.namespace, call.path.name)
        if queue is None:
            raise errors.UnknownQueue(f"no queue {call.path.name} in {call.query.namespace}")
        queue.open()
        return queue

    # Queues

    async def list_queues(self, call: Call) -> QueuePage:
        """Queues by name."""
        query: QueuesQuery = call.query
        queues = {queue.name: queue for queue in self._queues.all(query.namespace) if query.search in queue.name}
        names, more = await smallest(queues, query.after, query.limit, Pace(self._broker.clock))
        given = {"namespace": query.namespace, "limit": query.limit}
        given |= {"search": query.search} if query.search else {}
        following = f"{QUEUES}?{urlencode(given | {'after': names[-1]})}" if more else None
        await self._queues.know(queues[name] for name in names)
        return QueuePage([_summarize(queues[name]) for name in names], following)

    async def create_queue(self, call: Call) -> Response:
        """Declare a queue; one that is there already, and is the same, is answered as it is."""
        wish: QueueWish = call.content
        queue = await self._queues.declare(wish.namespace, wish.name, to_properties(wish))
        path = path_of("v1", "queues", queue.name)
        if queue.namespace != DEFAULT_NAMESPACE:
            path += f"?{urlencode({'namespace': queue.namespace})}"
        document = await self._describe(queue)
        return encode_json(CREATED, document, (("location", path),))

    async def delete_queue(self, call: Call) -> None:
        """Delete a queue with what waits in it; of a topic that was there before it, only the queue goes."""
        query: QueueDeletion = call.query
        await self._queues.delete(self._queue(call), if_unused=query.if_unused, if_empty=query.if_empty)

    async def get_queue(self, call: Call) -> QueueDocument:
        """A queue: what waits, how far behind it is, what is in force."""
        return await self._describe(self._queue(call))

    async def _describe(self, queue: Queue) -> QueueDocument:
        await self._queues.open(queue)
        lanes: list[LaneDocument] = []
        for lane in queue.lanes:
            lag = await self._lag.measure(lane.log, lane.cursor.first_open())
            count = max(lane.count, 0)
            seconds = lag.seconds if count else 0.0
            lanes.append(LaneDocument(lane.number, lane.cursor.floor, lane.end, count, seconds))
        ages = [lane.lag_seconds for lane in lanes]
        known = [age for age in ages if age is not None]
        properties = queue.properties
        return QueueDocument(
            name=queue.name,
            namespace=queue.namespace,
            topic=queue.topic_name,
            kind=properties.kind,
            durable=properties.durable,
            exclusive=properties.exclusive,
            auto_delete=properties.auto_delete,
            ready=queue.ready_count,
            unsettled=queue.unsettled_count,
            consumers=queue.consumer_count,
            paused=queue.is_paused,
            lost=queue.lost,
            expired=queue.expired,
            dropped=queue.dropped,
            refused=queue.refused,
            rules=describe_rules(queue),
            lag_messages=sum(lane.lag_messages for lane in lanes),
            lag_seconds=max(known) if len(known) == len(ages) else None,
            lanes=lanes,
        )

    async def change_queue(self, call: Call) -> QueueDocument:
        """Give nothing out, or give out again; other limits, leases and retries, for the messages that wait too."""
        queue, change = self._queue(call), call.content
        wanted = changed_properties(queue.properties, change)
        if wanted != queue.properties:
            await self._queues.alter(queue, wanted)
        if change.paused is not UNSET:
            await self._queues.pause(queue, is_paused=change.paused)
        return await self.get_queue(call)

    async def seek_queue(self, call: Call) -> QueueDocument:
        """Rewind or skip: all from a time or an offset on waits again, all before is settled."""
        wish: SeekWish = call.content
        if (wish.time_ms is None) is (wish.offset is None):
            raise errors.InvalidContent("either time_ms or offset", "/offset")
        await self._queues.seek(self._queue(call), time_ms=wish.time_ms, offset=wish.offset)
        return await self.get_queue(call)

    async def preview_seek(self, call: Call) -> SeekPreview:
        """What a seek would do. Nothing changes."""
        query: SeekQuery = call.query
        if (query.time_ms is None) is (query.offset is None):
            raise errors.InvalidParameter("either time_ms or offset", "offset")
        queue = self._queue(call)
        count = await self._queues.preview_seek(queue, time_ms=query.time_ms, offset=query.offset)
        return SeekPreview(queue.ready_count, queue.unsettled_count, count, queue.consumer_count)

    async def list_dead_letters(self, call: Call) -> LetterPlaces:
        """Queues to which others send what they give up, and how many letters wait there."""
        pace = Pace(self._broker.clock)
        places: dict[tuple[str, str], tuple[Queue, list[str]]] = {}
        for namespace in list(self._queues.namespaces()):
            if call.query.namespace not in (None, namespace):
                continue
            for queue in list(self._queues.all(namespace)):
                await pace.step()
                target = queue.rules.dead_letter
                letters = None if target is None else self._queues.find(namespace, target.routing_key or queue.name)
                if letters is not None and letters is not queue:
                    places.setdefault((namespace, letters.name), (letters, []))[1].append(queue.name)
        await self._queues.know(letters for letters, _ in places.values())
        found = [
            LetterPlace(letters.name, namespace, letters.ready_count, sorted(sources)[:SOURCES_SHOWN_MAX])
            for (namespace, _), (letters, sources) in places.items()
        ]
        found.sort(key=lambda place: (-place.letters, place.namespace, place.queue))
        return LetterPlaces(found, sum(place.letters for place in found))

    async def redeliver_messages(self, call: Call) -> Count:
        """Let settled messages wait again, as long as retention holds them."""
        queue = self._queue(call)
        selection: dict[int, list[int]] = {}
        for part in call.content.messages:
            if part.lane >= len(queue.lanes):
                raise errors.OffsetOutOfRange(f"the queue has {len(queue.lanes)} lanes")
            selection.setdefault(part.lane, []).extend(part.offsets)
        return Count(await self._queues.redeliver(queue, selection))

    async def purge_queue(self, call: Call) -> Count:
        """Settle all that waits."""
        return Count(await self._queues.purge(self._queue(call)))

    # Messages

    async def list_messages(self, call: Call) -> MessagePage:
        """Messages that are not settled, dead letters with their facts; nothing is taken out."""
        query: MessagesQuery = call.query
        if query.header_value is not None and query.header is None:
            raise errors.InvalidParameter("header_value needs header", "header_value")

        try:
            selected = letter_filter(query.reason, query.origin, query.where)
        except InvalidSelector as error:
            raise errors.InvalidParameter(str(error), "where") from None

        def wanted(message: Message) -> bool:
            return selected(message) and _has_header(message, query.header, query.header_value)

        after = decode_place(query.after, "after") if query.after else Where()
        page = await self._broker.letters.browse(self._queue(call), after, query.limit, wanted)
        following = None
        if page.after is not None:
            given = {name: value for name, value in msgspec.structs.asdict(query).items() if value is not None}
            path = path_of("v1", "queues", call.path.name, "messages")
            following = f"{path}?{urlencode(given | {'after': encode_place(page.after)})}"
        opaque = self._broker.envelopes.mark_names  # each shown readably besides
        return MessagePage([describe_message(found, opaque) for found in page.found], following)

    async def edit_message(self, call: Call) -> None:
        """Other content: the message goes to the end of its queue. In one commit."""
        change: MessageChange = call.content
        queue = self._queue(call)

        async def edit(message: Message) -> bool:
            value = message.value if change.value is UNSET else encode_content(change.value, "/value") or b""
            put = Put([queue], self._edited(message, change.headers), value, message.key)
            await self._broker.letters.replace(queue, message, put)
            return True

        await self._with_message(queue, call.path.place, edit)

    def _edited(self, message: Message, changes: dict[str, Content]) -> bytes:
        """Its headers with these changes, for those who read records and for those who read messages."""
        headers = dict(decode_headers(message.headers))
        dialect = self._broker.dialects.of(message)
        if changes and dialect is not None:
            opened = dialect.open(message)
            plain = {
                name: value for name, value in opened.properties.get("headers", {}).items() if not _is_of_deaths(name)
            }
            for name, content in changes.items():
                plain.pop(name, None)
                if content is not None:
                    plain[name] = encode_content(content, f"/headers/{name}") if isinstance(content, Bytes) else content
            sealed = dialect.seal(opened.address, {**opened.properties, "headers": plain})
            kept = {name: value for name, value in headers.items() if name.startswith(INTERNAL_PREFIX)}
            return encode_headers(list((dict(decode_headers(sealed.headers)) | kept).items()))
        for name, content in changes.items():
            if content is None:
                headers.pop(name, None)
            else:
                headers[name] = encode_content(content, f"/headers/{name}")
        return encode_headers(list(headers.items()))

    async def delete_message(self, call: Call) -> None:
        """Settle one message that waits."""
        queue = self._queue(call)

        async def settle(message: Message) -> bool:
            self._queues.settling.settle([message])
            await self._queues.outbox.wait_durable()
            return True

        await self._with_message(queue, call.path.place, settle)

    async def _with_message(self, queue: Queue, place: str, change: Callable[[Message], Awaitable[bool]]) -> None:
        done = await self._broker.letters.with_message(queue, decode_place(place, "place"), change)
        if not done:
            raise errors.UnknownMessage(f"no message waits at {place}")

    # Redrives

    async def start_redrive(self, call: Call) -> Response:
        """Send dead letters back, at a rate. It goes on after a restart; what has come back too often stays."""
        content: RedriveContent = call.content
        wish = RedriveWish(
            to_queue=content.to_queue,
            rate=content.rate,
            limit=content.limit,
            times_max=content.times_max,
            reason=content.reason,
            origin=content.origin,
            where=content.where,
        )
        try:
            redrive = await self._broker.redrives.start(self._queue(call), wish)
        except InvalidSelector as error:
            raise errors.InvalidContent(str(error), "/where") from None
        if redrive is None:
            raise errors.Overloaded("too many redrives are under way")
        location = path_of("v1", "redrives", redrive.number)
        return encode_json(ACCEPTED, describe_redrive(redrive), (("location", location),))

    async def list_redrives(self, call: Call) -> RedriveList:
        """Redrives under way, and the last that ended."""
        return RedriveList([describe_redrive(redrive) for redrive in self._broker.redrives.all()])

    async def get_redrive(self, call: Call) -> RedriveDocument:
        """How far a redrive is."""
        return describe_redrive(self._redrive(call))

    async def cancel_redrive(self, call: Call) -> RedriveDocument:
        """Send no more back; what was sent back stays there."""
        redrive = self._redrive(call)
        await self._broker.redrives.cancel(redrive)
        return describe_redrive(redrive)

    def _redrive(self, call: Call) -> Redrive:
        redrive = self._broker.redrives.get(call.path.number)
        if redrive is None:
            raise errors.UnknownRedrive(f"no redrive {call.path.number}")
        return redrive


def _is_of_deaths(name: str) -> bool:
    """Of headers that are made from the history of deaths whenever a message is shown."""
    return name == "x-death" or name.startswith(("x-first-death-", "x-last-death-"))


def _summarize(queue: Queue) -> QueueSummary:
    return QueueSummary(
        queue.name,
        queue.properties.kind,
        queue.ready_count,
        queue.unsettled_count,
        queue.consumer_count,
        queue.is_paused,
    )


def _has_header(message: Message, name: str | None, value: str | None) -> bool:
    if name is None:
        return True
    wanted = None if value is None else value.encode()
    headers = decode_headers(message.headers)
    return any(present == name and wanted in (None, content) for present, content in headers)
