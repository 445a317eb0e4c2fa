"""Acquisitions: what queries of Spark have taken from queues and topics, and what becomes of it."""

from __future__ import annotations

import heapq

from mainstem.broker.acquisitions import Reading
from mainstem.broker.broker import Broker
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec import Response
from mainstem.protocols.http.handlers.routes import Call, Octets, Route
from mainstem.protocols.http.handlers.topics.topics import WRITES
from mainstem.protocols.http.mapping.acquisition_documents import (
    Acquired,
    AcquireWish,
    AcquisitionFacts,
    AcquisitionList,
    AcquisitionPath,
    AcquisitionsQuery,
    BatchesQuery,
    Ends,
    HeldLogPath,
    Holding,
    ReadingWish,
    SourceWish,
    VerdictsWish,
    acquire_of,
    describe_acquisition,
    describe_holding,
    source_of,
    verdicts_on,
)
from mainstem.protocols.http.mapping.documents import NoQuery
from mainstem.wire.record_batch import batches_in, read_header

OK = 200
ACQUISITIONS = "/v1/acquisitions"
ACQUISITION = "/v1/acquisitions/{id}"
BATCHES_BYTES = 4 << 20


class AcquisitionHandlers:
    """/v1/acquisitions and below."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._acquisitions = broker.acquisitions

    def routes(self) -> list[Route]:
        """What is served here."""
        source = (errors.UnknownQueue, errors.UnknownTopic, errors.QueueBusy, errors.UnsuitableSource)
        known = (errors.UnknownAcquisition, errors.AcquisitionReleased)
        ruled = (*known, errors.InvalidVerdict, *WRITES)
        shown = {OK: AcquisitionFacts}
        return [
            Route("GET", ACQUISITIONS, self.list_acquisitions, {OK: AcquisitionList}, query=AcquisitionsQuery),
            Route("POST", ACQUISITIONS, self.acquire_records, {OK: Acquired},
                  query=NoQuery, content=AcquireWish, refusals=(*source, *WRITES)),
            Route("POST", f"{ACQUISITIONS}/ends", self.find_ends, {OK: Ends},
                  query=NoQuery, content=SourceWish, refusals=source),
            Route("GET", ACQUISITION, self.get_acquisition, {OK: Holding},
                  steps=AcquisitionPath, query=NoQuery, refusals=(errors.UnknownAcquisition,)),
            Route("GET", f"{ACQUISITION}/batches/{{log}}", self.read_batches, {OK: Octets},
                  steps=HeldLogPath, query=BatchesQuery, refusals=(*known, errors.OffsetOutOfRange)),
            Route("POST", f"{ACQUISITION}/pin", self.pin_acquisition, {OK: Holding},
                  steps=AcquisitionPath, query=NoQuery, refusals=(*known, *WRITES)),
            Route("POST", f"{ACQUISITION}/read", self.note_reading, shown,
                  steps=AcquisitionPath, query=NoQuery, content=ReadingWish, refusals=ruled),
            Route("POST", f"{ACQUISITION}/verdicts", self.rule_on_records, shown,
                  steps=AcquisitionPath, query=NoQuery, content=VerdictsWish, refusals=ruled),
            Route("POST", f"{ACQUISITION}/settle", self.settle_acquisition, shown,
                  steps=AcquisitionPath, query=NoQuery, refusals=ruled),
            Route("POST", f"{ACQUISITION}/release", self.release_acquisition, shown,
                  steps=AcquisitionPath, query=NoQuery, refusals=(errors.UnknownAcquisition, *WRITES)),
        ]  # fmt: skip

    def list_acquisitions(self, call: Call) -> AcquisitionList:
        """Acquisitions, the oldest first."""
        query: AcquisitionsQuery = call.query
        found = [one for one in self._acquisitions.all() if query.subscription in ("", one.source.name)]
        oldest = heapq.nsmallest(query.limit, found, key=lambda one: (one.opened_ms, one.id))
        return AcquisitionList(len(found), [describe_acquisition(one) for one in oldest])

    async def acquire_records(self, call: Call) -> Acquired:
        """Take what is free under a lease, and be done with the acquisition before."""
        acquired = await self._acquisitions.acquire(acquire_of(call.content))
        return Acquired(None if acquired is None else describe_acquisition(acquired))

    async def find_ends(self, call: Call) -> Ends:
        """Where each log ends that would be acquired from."""
        wish: SourceWish = call.content
        return Ends(dict(await self._acquisitions.ends(source_of(wish), wish.topics)))

    def get_acquisition(self, call: Call) -> Holding:
        """An acquisition with what it holds."""
        return describe_holding(self._acquisitions.get(call.path.id), self._broker.topics)

    async def pin_acquisition(self, call: Call) -> Holding:
        """It is logged by its query: from now on it lasts until it is settled or released."""
        return describe_holding(await self._acquisitions.pin(call.path.id), self._broker.topics)

    async def note_reading(self, call: Call) -> AcquisitionFacts:
        """It is read in this batch, whose output may settle it."""
        wish: ReadingWish = call.content
        await self._acquisitions.read(call.path.id, Reading(wish.query, wish.batch))
        return describe_acquisition(self._acquisitions.get(call.path.id))

    async def rule_on_records(self, call: Call) -> AcquisitionFacts:
        """What is to become of single records when the acquisition is settled."""
        name = call.path.id
        await self._acquisitions.rule(name, call.content.who, verdicts_on(name, call.content.verdicts))
        return describe_acquisition(self._acquisitions.get(name))

    async def settle_acquisition(self, call: Call) -> AcquisitionFacts:
        """Accept all of it, but for what was ruled on. Once: the same again changes nothing."""
        await self._acquisitions.settle(call.path.id)
        return describe_acquisition(self._acquisitions.get(call.path.id))

    async def release_acquisition(self, call: Call) -> AcquisitionFacts:
        """Let others have its records; its query fails when it runs the batch again."""
        await self._acquisitions.release(call.path.id)
        return describe_acquisition(self._acquisitions.get(call.path.id))

    async def read_batches(self, call: Call) -> Response:
        """Record batches as they are stored, of a log that clients of Kafka do not see; none behind the last stable offset."""
        one, log = self._acquisitions.get(call.path.id), call.path.log
        if log not in one.stretches:
            raise errors.UnknownAcquisition(f"acquisition {one.id} has nothing of log {log}")
        result = await self._broker.read(log, call.query.offset, BATCHES_BYTES)
        body = bytearray()
        for buffer in result.batches:
            view = memoryview(buffer)
            for position, size in batches_in(buffer):
                if read_header(buffer, position).base_offset < result.stable:
                    body += view[position : position + size]
        return Response(OK, bytes(body), "application/octet-stream")
