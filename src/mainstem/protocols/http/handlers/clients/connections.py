"""/v1/connections: who is connected, by any protocol; and the end of a connection."""

from __future__ import annotations

import heapq
from urllib.parse import urlencode

from mainstem.broker.clock import Clock
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.operation.operations import Operations
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.clients.connections import (
    ConnectionDocument,
    ConnectionPage,
    ConnectionPath,
    ConnectionsQuery,
    describe_connection,
    fits,
    place,
)
from mainstem.protocols.http.mapping.documents import NoQuery

OK, NO_CONTENT = 200, 204
CONNECTIONS = "/v1/connections"
CONNECTION = "/v1/connections/{id}"


class ConnectionHandlers:
    """/v1/connections and below."""

    def __init__(self, operations: Operations, clock: Clock) -> None:
        self._operations = operations
        self._clock = clock

    def routes(self) -> list[Route]:
        """What is served here."""
        unknown = (errors.UnknownConnection,)
        return [
            Route("GET", CONNECTIONS, self.list_connections, {OK: ConnectionPage}, query=ConnectionsQuery),
            Route("GET", CONNECTION, self.get_connection, {OK: ConnectionDocument},
                  steps=ConnectionPath, query=NoQuery, refusals=unknown),
            Route("DELETE", CONNECTION, self.close_connection, {NO_CONTENT: None},
                  steps=ConnectionPath, query=NoQuery, refusals=unknown),
        ]  # fmt: skip

    async def list_connections(self, call: Call) -> ConnectionPage:
        """Connections of every protocol, searched and sorted here."""
        query: ConnectionsQuery = call.query
        pace = Pace(self._clock)
        found = []
        for connection in self._operations.connections():
            document = describe_connection(connection)
            if fits(document, query):
                found.append((place(document, query), document))
            await pace.step()
        end = query.after + query.limit
        line = heapq.nsmallest(end + 1, found, key=lambda one: one[0])
        shown = [document for _, document in line[query.after : end]]
        return ConnectionPage(shown, _next(query) if len(line) > end else None)

    def get_connection(self, call: Call) -> ConnectionDocument:
        """One connection."""
        for connection in self._operations.connections():
            if connection.id == call.path.id:
                return describe_connection(connection)
        raise errors.UnknownConnection(f"no connection {call.path.id}")

    def close_connection(self, call: Call) -> None:
        """Have a connection finish what is in flight, and close it; after some seconds it is cut."""
        if not self._operations.end_connection(call.path.id):
            raise errors.UnknownConnection(f"no connection {call.path.id}")


def _next(query: ConnectionsQuery) -> str:
    given: dict[str, str | int] = {"limit": query.limit, "after": query.after + query.limit, "sort": query.sort}
    if query.search:
        given["search"] = query.search
    if query.protocol:
        given["protocol"] = query.protocol
    return f"{CONNECTIONS}?{urlencode(given)}"
