"""Namespaces, in each of which names of queues are its own."""

from __future__ import annotations

import msgspec

from mainstem.broker.broker import Broker
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import Page, smallest
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.documents import PageQuery

OK = 200
NAMESPACES = "/v1/namespaces"


class NamespaceFacts(msgspec.Struct, frozen=True):
    """One of them."""

    name: str


class NamespacePage(msgspec.Struct, frozen=True):
    """Some of them."""

    namespaces: list[NamespaceFacts]
    next: str | None


class NamespaceHandlers:
    """/v1/namespaces."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def routes(self) -> list[Route]:
        """What is served here."""
        return [Route("GET", NAMESPACES, self.list_namespaces, {OK: NamespacePage}, query=PageQuery)]

    async def list_namespaces(self, call: Call) -> NamespacePage:
        """Namespaces by name."""
        query = call.query
        known = [space.name for space in self._broker.namespaces.all()]
        names, more = await smallest(known, query.after, query.limit, Pace(self._broker.clock))
        following = Page(NAMESPACES, query.limit).after(names[-1]) if more else None
        return NamespacePage([NamespaceFacts(name) for name in names], following)
