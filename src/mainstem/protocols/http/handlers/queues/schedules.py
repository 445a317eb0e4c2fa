"""Schedules: list, search, create, change, cancel; and what recurs."""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec
from msgspec import UNSET

from mainstem.broker.broker import Broker
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec import Response, encode_json
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import Page, path_of, smallest
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.contents import encode_content, encode_header_block
from mainstem.protocols.http.mapping.documents import NoQuery, PageQuery
from mainstem.protocols.http.mapping.schedule_documents import (
    RecurrenceDocument,
    RecurrencePage,
    RecurrencePath,
    RecurrenceWish,
    ScheduleChange,
    ScheduleDocument,
    SchedulePage,
    SchedulePath,
    ScheduleQuery,
    ScheduleWish,
    describe_pending,
    describe_recurrence,
    describe_target,
    due_time,
    to_id,
    to_letter,
    to_search,
)

OK, CREATED, NO_CONTENT = 200, 201, 204
SCHEDULES = "/v1/schedules"
SCHEDULE = "/v1/schedules/{id}"
RECURRENCES = "/v1/recurrences"
RECURRENCE = "/v1/recurrences/{name}"
WRITES = (errors.StorageFull, errors.Overloaded, errors.Unavailable)


class ScheduleHandlers:
    """/v1/schedules and /v1/recurrences."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._schedules = broker.schedules
        self._recurrences = broker.recurrences

    def routes(self) -> list[Route]:
        """What is served here."""
        unknown = (errors.NotScheduled,)
        shown, again = {OK: ScheduleDocument}, {OK: RecurrenceDocument}
        return [
            Route("GET", SCHEDULES, self.list_schedules, {OK: SchedulePage}, query=ScheduleQuery),
            Route("POST", SCHEDULES, self.create_schedule, {CREATED: ScheduleDocument},
                  query=NoQuery, content=ScheduleWish, refusals=(errors.InvalidSchedule, *WRITES)),
            Route("GET", SCHEDULE, self.get_schedule, shown, steps=SchedulePath, query=NoQuery, refusals=unknown),
            Route("PATCH", SCHEDULE, self.change_schedule, shown, steps=SchedulePath, query=NoQuery,
                  content=ScheduleChange, refusals=(errors.InvalidSchedule, *unknown, *WRITES)),
            Route("DELETE", SCHEDULE, self.cancel_schedule, {NO_CONTENT: None},
                  steps=SchedulePath, query=NoQuery, refusals=(*unknown, *WRITES)),
            Route("GET", RECURRENCES, self.list_recurrences, {OK: RecurrencePage}, query=PageQuery),
            Route("GET", RECURRENCE, self.get_recurrence, again, steps=RecurrencePath, query=NoQuery, refusals=unknown),
            Route("PUT", RECURRENCE, self.put_recurrence, again, steps=RecurrencePath, query=NoQuery,
                  content=RecurrenceWish, refusals=(errors.InvalidSchedule, *WRITES)),
            Route("DELETE", RECURRENCE, self.delete_recurrence, {NO_CONTENT: None},
                  steps=RecurrencePath, query=NoQuery, refusals=(*unknown, *WRITES)),
        ]  # fmt: skip

    # Once

    async def list_schedules(self, call: Call) -> SchedulePage:
        """Records that wait for their time."""
        query: ScheduleQuery = call.query
        search, place = to_search(query)
        page = await self._schedules.pending(search, place, query.limit)
        following = None
        if page.after is not None:
            given = {name: value for name, value in msgspec.structs.asdict(query).items() if value is not None}
            following = f"{SCHEDULES}?{urlencode(given | {'after': page.after.encode()})}"
        return SchedulePage(self._schedules.pending_count, [describe_pending(found) for found in page.found], following)

    async def create_schedule(self, call: Call) -> Response:
        """Publish a record later. Answered when that is durable."""
        wish: ScheduleWish = call.content
        now_ms = self._broker.clock.now_ms()
        due_ms = due_time(wish, now_ms)
        if due_ms is None:
            raise errors.InvalidContent("due_ms or delay_ms is needed", "/due_ms")
        letter = to_letter(wish, now_ms)
        record_id = await self._schedules.schedule_now(letter, due_ms)
        document = ScheduleDocument(
            record_id.hex(),
            max(due_ms, now_ms),
            now_ms,
            describe_target(letter.target),
            wish.key,
            wish.value,
            wish.headers,
        )
        return encode_json(CREATED, document, (("location", path_of("v1", "schedules", record_id.hex())),))

    async def get_schedule(self, call: Call) -> ScheduleDocument:
        """A record that waits."""
        return describe_pending(await self._schedules.find(to_id(call.path.id)))

    async def change_schedule(self, call: Call) -> ScheduleDocument:
        """Another time or content; the answer has another id, for an id tells the time."""
        change: ScheduleChange = call.content
        record_id = to_id(call.path.id)
        letter = (await self._schedules.find(record_id)).letter
        if change.value is not UNSET:
            letter = msgspec.structs.replace(letter, value=encode_content(change.value, "/value"))
        if change.headers is not UNSET:
            letter = msgspec.structs.replace(letter, headers=encode_header_block(change.headers))
        due_ms = due_time(change, self._broker.clock.now_ms())
        changed = await self._schedules.change(record_id, due_ms=due_ms, letter=letter)
        return describe_pending(await self._schedules.find(changed))

    async def cancel_schedule(self, call: Call) -> None:
        """It will not be published."""
        await self._schedules.cancel(to_id(call.path.id))

    # Again and again

    async def list_recurrences(self, call: Call) -> RecurrencePage:
        """What recurs, by name."""
        known, query = self._recurrences.by_name, call.query
        names, more = await smallest(known, query.after, query.limit, Pace(self._broker.clock))
        following = Page(RECURRENCES, query.limit).after(names[-1]) if more else None
        return RecurrencePage([describe_recurrence(known[name]) for name in names if name in known], following)

    async def get_recurrence(self, call: Call) -> RecurrenceDocument:
        """What recurs by this name."""
        return describe_recurrence(self._recurrences.get(call.path.name))

    async def put_recurrence(self, call: Call) -> RecurrenceDocument:
        """Publish a record by a cron expression, in a time zone; takes the place of what recurs by this name."""
        wish: RecurrenceWish = call.content
        letter = to_letter(wish, self._broker.clock.now_ms())
        put = self._recurrences.put
        return describe_recurrence(await put(call.path.name, wish.cron, wish.zone, letter, is_paused=wish.paused))

    async def delete_recurrence(self, call: Call) -> None:
        """It does not happen again."""
        await self._recurrences.remove(call.path.name)
