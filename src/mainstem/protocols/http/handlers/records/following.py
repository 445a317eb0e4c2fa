"""GET /v1/topics/{name}/follow: records as they come, as server-sent events; an event's id says where to go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.log import Edge
from mainstem.broker.records.filters import Wanted
from mainstem.model.errors import MainstemError
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec import encode_error
from mainstem.protocols.http.handlers.records.reading import READS, decoded_values, filter_of, first_positions
from mainstem.protocols.http.handlers.routes import Call, Events, Route
from mainstem.protocols.http.mapping.records.documents import FollowQuery, describe_record
from mainstem.protocols.http.mapping.records.positions import encode_positions
from mainstem.protocols.http.mapping.refusals import refusal_of
from mainstem.protocols.http.mapping.topic_documents import TopicPath
from mainstem.wire.http.messages import EVENTS, Outlet, StreamedResponse

log = logging.getLogger(__name__)

OK = 200
FOLLOW = "/v1/topics/{name}/follow"
FOLLOWERS_MAX = 256
PAGE_RECORDS = 200
SILENCE_S = 15.0
"""After this time without a record a comment is sent: a peer that has gone is noticed, and proxies keep the connection."""

_encode = msgspec.json.Encoder().encode


class FollowHandlers:
    """Following topics."""

    def __init__(self, broker: Broker, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._broker = broker
        self._spawn = spawn
        self.followers = 0

    def routes(self) -> list[Route]:
        """What is served here."""
        return [
            Route("GET", FOLLOW, self.follow_topic, {OK: Events}, steps=TopicPath, query=FollowQuery,
                  refusals=(*READS, errors.Overloaded), header_names=("Last-Event-ID",)),
        ]  # fmt: skip

    async def follow_topic(self, call: Call) -> StreamedResponse:
        """Records as they come, as server-sent events."""
        query: FollowQuery = call.query
        last = call.request.header(b"last-event-id")
        if last:
            query = msgspec.structs.replace(query, after=last, offset=None, time_ms=None)
        topic = self._broker.topics.get(call.path.name, query.namespace)
        wanted = filter_of(query)
        positions = await first_positions(self._broker, topic, query, at=Edge.STABLE)
        if self.followers >= FOLLOWERS_MAX:
            raise errors.Overloaded(f"{FOLLOWERS_MAX} followers are connected")
        return StreamedResponse(
            _Follower(self, self._broker, self._spawn, topic, positions, wanted, query),
            EVENTS,
            headers=(("cache-control", "no-store"), ("x-accel-buffering", "no")),
        )


class _Follower:
    """One connection that follows a topic."""

    def __init__(
        self,
        home: FollowHandlers,
        broker: Broker,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        topic: Topic,
        positions: dict[int, int],
        wanted: Wanted | None,
        query: FollowQuery,
    ) -> None:
        self._query = query
        self._home = home
        self._broker = broker
        self._spawn = spawn
        self._topic = topic
        self._positions = positions
        self._wanted = wanted
        self._clear = asyncio.Event()

    def begin(self, outlet: Outlet) -> None:
        """Write until nobody reads."""
        self._home.followers += 1
        self._spawn(self._run(outlet))

    def cleared(self) -> None:
        """Go on."""
        self._clear.set()

    def closed(self) -> None:
        """The task notices when it looks next."""
        self._clear.set()

    async def _run(self, outlet: Outlet) -> None:
        try:
            outlet.write(b": follows\n\n")
            while outlet.is_open:
                await self._write_page(outlet)
        except MainstemError as error:
            refusal = refusal_of(error) or errors.InternalError("the topic cannot be read")
            outlet.write(b"event: problem\ndata: " + encode_error(refusal).body.strip() + b"\n\n")
        except Exception:
            log.exception("a follower failed")
        finally:
            self._home.followers -= 1
            outlet.end()

    async def _write_page(self, outlet: Outlet) -> None:
        page = await self._broker.records.page(self._topic, self._positions, PAGE_RECORDS, self._wanted)
        positions = dict(self._positions)
        parts: list[bytes] = []
        decoded = await decoded_values(self._broker, self._topic, page, self._query)
        for found, content in zip(page.found, decoded, strict=True):
            positions[found.partition] = found.record.offset + 1
            place = encode_positions(positions).encode()
            parts.append(b"id: %b\ndata: %b\n\n" % (place, _encode(describe_record(found, content))))
        self._positions = page.positions
        outlet.write(b"".join(parts))
        while outlet.is_open and not outlet.is_clear:
            self._clear.clear()
            await self._clear.wait()
        if page.is_complete and outlet.is_open:
            if not await self._broker.records.wait(self._topic, self._positions, SILENCE_S):
                outlet.write(b": still here\n\n")
