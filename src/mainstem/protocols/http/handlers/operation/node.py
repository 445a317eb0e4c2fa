"""The broker as a whole, and the way to everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mainstem.broker.broker import Broker
from mainstem.protocols.http.codec import Response
from mainstem.protocols.http.handlers.openapi import describe_routes
from mainstem.protocols.http.handlers.operation.console import Console
from mainstem.protocols.http.handlers.operation.operations import Operations
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.documents import Index, ListenerFacts, NodeDocument, NoQuery
from mainstem.protocols.http.mapping.group_documents import group_names

OK = 200


class NodeHandlers:
    """GET /, /v1/node and /openapi.json."""

    def __init__(self, operations: Operations, broker: Broker, console: Console | None = None) -> None:
        self._operations = operations
        self._broker = broker
        self._console = console
        self._document = b""
        self._links: dict[str, str] = {}

    def routes(self) -> list[Route]:
        """What is served here."""
        return [
            Route("GET", "/", self.index, {OK: Index}),
            Route("GET", "/openapi.json", self.openapi, {OK: dict[str, Any]}),
            Route("GET", "/v1/node", self.get_node, {OK: NodeDocument}, query=NoQuery),
        ]

    def announce(self, routes: Sequence[Route]) -> None:
        """All that is served."""
        self._document = msgspec.json.encode(describe_routes(routes, self._operations.version())) + b"\n"
        self._links = {
            route.handler.__name__.removeprefix("get_").removeprefix("list_"): route.path
            for route in routes
            if route.method == "GET" and route.steps is None and route.path != "/"
        }

    def index(self, call: Call) -> Index | Response:
        """What there is to be read; for a browser, the console."""
        page = None if self._console is None else self._console.page(call.request)
        return page or Index("mainstem", self._operations.version(), self._links)

    def openapi(self, call: Call) -> Response:
        """This description of the API."""
        return Response(OK, self._document)

    def get_node(self, call: Call) -> NodeDocument:
        """The broker: its version, names, addresses and storage."""
        operations = self._operations
        return NodeDocument(
            version=operations.version(),
            node_id=self._broker.node,
            cluster_id=self._broker.cluster_id,
            condition=operations.condition(),
            topics=len(self._broker.topics.named()),
            groups=len(group_names(self._broker)),
            listeners=[
                ListenerFacts(
                    listener.name,
                    str(listener.address),
                    listener.connections,
                    listener.traffic.received_bytes,
                    listener.traffic.sent_bytes,
                )
                for listener in operations.listeners
            ],
            advertised=dict(operations.advertised()),
            storage=dict(operations.storage()),
        )
