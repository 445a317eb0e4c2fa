"""Exchanges and bindings, by namespace.

A change is decided and applied at once and answered when it is durable; what is published through it afterwards is behind
it in the log. A commit that the log refuses takes the routes back to what is stored; those that end with the broker stay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from mainstem.coordination.routes.binding import Binding, Destination, DestinationKind, binding_identity
from mainstem.coordination.routes.errors import UnknownExchange
from mainstem.coordination.routes.exchange import KINDS, Exchange, NewExchange
from mainstem.coordination.routes.matchers import Facts
from mainstem.coordination.routes.routing import Delayed, Routed, follow, no_facts
from mainstem.coordination.routes.table import SCOPE, RouteChanges, RouteTable, decode_change, in_order
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Commit, Engine

__all__ = [
    "KINDS",
    "Binding",
    "Delayed",
    "Destination",
    "DestinationKind",
    "Exchange",
    "NewExchange",
    "RouteChanges",
    "Routed",
    "Router",
    "Routes",
    "binding_identity",
]

ROUTES_CACHED_MAX = 10_000
"""Of one namespace. When there are more, all are forgotten: the next publishes find them again."""
QUEUES_CACHED_MAX = 1_000_000
"""Queues that the cached routes of one namespace name, each time counted: 8 MB."""


class Router:
    """The routes of one namespace."""

    def __init__(self, engine: Engine, namespace: str, alternate_by_policy: Callable[[str, str], str | None]) -> None:
        self.namespace = namespace
        self._engine = engine
        self._alternate_by_policy = functools.partial(alternate_by_policy, namespace)
        self._table = self._new_table()
        self._cached: dict[tuple[str, str], Routed] = {}
        self._queues_cached = 0

    def _new_table(self) -> RouteTable:
        table = RouteTable(self.namespace)
        table.alternate_by_policy = self._alternate_by_policy
        return table

    # Questions

    @property
    def generation(self) -> int:
        """Grows with every change: what was concluded from routes before may be wrong."""
        return self._table.generation

    def find(self, name: str) -> Exchange | None:
        """The exchange of this name."""
        return self._table.find(name)

    def exchanges(self) -> list[Exchange]:
        """All there are, those that are always there included."""
        return self._table.exchanges()

    def bindings(self) -> Iterable[Binding]:
        """All that were made; those of the default exchange are not among them."""
        return self._table.bindings()

    def outgoing(self, exchange: str) -> list[Binding]:
        """Those that begin at an exchange."""
        return self._table.outgoing(exchange)

    def incoming(self, destination: Destination) -> list[Binding]:
        """Those that lead to a queue or an exchange."""
        return self._table.incoming(destination)

    def route(
        self,
        exchange: str,
        routing_key: str,
        headers: Facts = no_facts,
        properties: Facts = no_facts,
        *,
        due: bool = False,
    ) -> Routed:
        """Where a message goes. Raises UnknownExchange.

        The default exchange answers the key: whether there is such a queue, the caller sees. With `due`, the exchange has
        kept the message for its delay and passes it on now.
        """
        known = self._cached.get((exchange, routing_key))
        if known is None:
            known = follow(self._table, exchange, (routing_key,), headers, properties, due=due)
            if known.cacheable:
                self._remember(exchange, routing_key, known)
        return known

    def _remember(self, exchange: str, routing_key: str, routed: Routed) -> None:
        self._queues_cached += len(routed.queues)
        if len(self._cached) >= ROUTES_CACHED_MAX or self._queues_cached > QUEUES_CACHED_MAX:
            self._forget_cached()
            self._queues_cached = len(routed.queues)
        self._cached[exchange, routing_key] = routed

    def _forget_cached(self) -> None:
        self._cached.clear()
        self._queues_cached = 0

    def route_all(
        self,
        exchange: str,
        routing_keys: Sequence[str],
        headers: Facts = no_facts,
        properties: Facts = no_facts,
        *,
        due: bool = False,
    ) -> Routed:
        """The same for a message with several keys."""
        return follow(self._table, exchange, routing_keys, headers, properties, due=due)

    # Changes

    async def declare_exchange(self, wish: NewExchange) -> Exchange:
        """The exchange, there already or new. Raises kinds of RouteError."""
        await self._commit(self._table.decide_declare(wish))
        exchange = self._table.find(wish.name)
        if exchange is None:
            raise UnknownExchange(wish.name)  # Deleted while we waited.
        return exchange

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Remove an exchange with its bindings. Raises kinds of RouteError."""
        await self._commit(self._table.decide_delete(name, if_unused=if_unused))

    async def bind(
        self,
        source: str,
        destination: Destination,
        routing_key: str,
        arguments: Mapping[str, object],
        *,
        durable: bool = True,
    ) -> None:
        """Make a binding, if it is not there. `durable` says whether the queue at its end is. Raises kinds of RouteError."""
        await self._commit(self._table.decide_bind(source, destination, routing_key, arguments, durable=durable))

    async def unbind(
        self, source: str, destination: Destination, routing_key: str, arguments: Mapping[str, object]
    ) -> None:
        """Remove a binding, if it is there. Raises kinds of RouteError."""
        await self._commit(self._table.decide_unbind(source, destination, routing_key, arguments))

    async def clear(self) -> None:
        """Remove all that was declared: the namespace is deleted."""
        await self._commit(self._table.decide_forget_all())

    def decide_forget_queue(self, name: str) -> RouteChanges:
        """What is to be committed with the deletion of a queue; then `replay` it."""
        return self._table.decide_forget_queue(name)

    def replay(self, changes: RouteChanges) -> None:
        """Apply what was decided."""
        self._forget_cached()
        for mutation in changes.applied():
            _, kind, identity = decode_change(mutation.key)
            self._table.replay(kind, identity, mutation.value)

    def policies_changed(self) -> None:
        """Another alternate may hold now."""
        self._forget_cached()
        self._table.generation += 1

    def replay_stored(self, kind: str, identity: bytes, value: bytes) -> None:
        """Take in what is stored, at a start."""
        self._table.replay(kind, identity, value)

    async def _commit(self, changes: RouteChanges) -> None:
        """Also without any changes: what this answer shows may have been sequenced only just now."""
        answer = self._engine.commit([Commit(state=changes.state)])
        self.replay(changes)
        (outcome,) = await answer
        if isinstance(outcome, MainstemError):
            await self.reload()
            raise outcome

    async def reload(self) -> None:
        """Take back what is stored; keep what is transient as far as it still has its ends."""
        transient_exchanges = [exchange.wish() for exchange in self.exchanges() if not exchange.durable]
        transient_bindings = [binding for binding in self.bindings() if not binding.durable]
        entries = (await self._engine.load(SCOPE)).entries
        generation = self._table.generation
        self._table = self._new_table()
        self._table.generation = generation + 1
        for (namespace, kind, identity), value in in_order(entries):
            if namespace == self.namespace:
                self._table.replay(kind, identity, value)
        for wish in transient_exchanges:
            self.replay(self._table.decide_declare(wish))
        for binding in transient_bindings:
            try:
                self.replay(
                    self._table.decide_bind(
                        binding.source, binding.destination, binding.routing_key, binding.arguments, durable=False
                    )
                )
            except UnknownExchange:
                continue
        self._forget_cached()


class Routes:
    """The routers of a broker."""

    def __init__(
        self, engine: Engine, alternate_by_policy: Callable[[str, str], str | None] = lambda namespace, name: None
    ) -> None:
        self._engine = engine
        self._alternate_by_policy = alternate_by_policy
        self._routers: dict[str, Router] = {}

    async def load(self) -> None:
        """Take in what is stored."""
        entries = (await self._engine.load(SCOPE)).entries
        for (namespace, kind, identity), value in in_order(entries):
            self.of(namespace).replay_stored(kind, identity, value)

    def of(self, namespace: str) -> Router:
        """The routes of a namespace."""
        router = self._routers.get(namespace)
        if router is None:
            router = self._routers[namespace] = Router(self._engine, namespace, self._alternate_by_policy)
        return router

    def forget(self, namespace: str) -> None:
        """The namespace was deleted, and its routes with it."""
        self._routers.pop(namespace, None)
