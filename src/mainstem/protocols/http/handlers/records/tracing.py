"""GET /v1/trace/{id}: where a message went."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.trace.search import Sought
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.records.traces import TraceDocument, TracePath, TraceQuery, describe_trace

OK = 200
TRACE = "/v1/trace/{id}"


class TraceHandlers:
    """Of single messages."""

    def __init__(self, broker: Broker) -> None:
        self._trace = broker.trace

    def routes(self) -> list[Route]:
        """What is served here."""
        refusals = (errors.UnknownTopic, errors.OffsetOutOfRange)
        return [
            Route(
                "GET", TRACE, self.find_trace, {OK: TraceDocument}, steps=TracePath, query=TraceQuery, refusals=refusals
            )
        ]

    async def find_trace(self, call: Call) -> TraceDocument:
        """Where a message went: published, read, given out, died, edited, sent back, scheduled."""
        query: TraceQuery = call.query
        sought = Sought(call.path.id, query.topic, query.namespace, query.by == "key")
        return describe_trace(await self._trace.trace(sought))
