"""/v1/exchanges and /v1/bindings: where published messages go."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.routes import Binding, Destination, DestinationKind, Exchange, NewExchange, Router
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec import Response, encode_json
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import path_of, smallest
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.routing.exchanges import (
    BindingDocument,
    BindingPage,
    BindingPath,
    BindingsQuery,
    BindingWish,
    ExchangeDeletion,
    ExchangeDocument,
    ExchangePage,
    ExchangePath,
    ExchangesQuery,
    ExchangeWish,
    NamespaceQuery,
    check_short,
    describe_binding,
    describe_exchange,
    destination_of,
    id_of,
)

OK, CREATED, NO_CONTENT = 200, 201, 204
EXCHANGES = "/v1/exchanges"
EXCHANGE = "/v1/exchanges/{name}"
BINDINGS = "/v1/bindings"
BINDING = "/v1/bindings/{id}"
WRITES = (errors.StorageFull, errors.Overloaded, errors.Unavailable)


class ExchangeHandlers:
    """Exchanges and bindings: list, show, make, delete."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def routes(self) -> list[Route]:
        """What is served here."""
        unknown = (errors.UnknownNamespace, errors.UnknownExchange)
        made = (errors.InvalidExchange, errors.ExchangeDiffers, *unknown, *WRITES)
        return [
            Route("GET", EXCHANGES, self.list_exchanges, {OK: ExchangePage}, query=ExchangesQuery,
                  refusals=(errors.UnknownNamespace,)),
            Route("POST", EXCHANGES, self.declare_exchange, {CREATED: ExchangeDocument}, query=None,
                  content=ExchangeWish, refusals=made),
            Route("GET", EXCHANGE, self.get_exchange, {OK: ExchangeDocument}, steps=ExchangePath, query=NamespaceQuery,
                  refusals=unknown),
            Route("DELETE", EXCHANGE, self.delete_exchange, {NO_CONTENT: None}, steps=ExchangePath,
                  query=ExchangeDeletion, refusals=(*unknown, errors.InvalidExchange, errors.ExchangeInUse, *WRITES)),
            Route("GET", BINDINGS, self.list_bindings, {OK: BindingPage}, query=BindingsQuery,
                  refusals=(errors.UnknownNamespace,)),
            Route("POST", BINDINGS, self.bind, {CREATED: BindingDocument}, query=None, content=BindingWish,
                  refusals=(errors.UnknownQueue, *made)),
            Route("DELETE", BINDING, self.unbind, {NO_CONTENT: None}, steps=BindingPath, query=NamespaceQuery,
                  refusals=(errors.UnknownNamespace, errors.UnknownBinding, *WRITES)),
        ]  # fmt: skip

    async def list_exchanges(self, call: Call) -> ExchangePage:
        """Exchanges by name; the default exchange, which has none, is the first."""
        query: ExchangesQuery = call.query
        router = self._router(query.namespace)
        pace = Pace(self._broker.clock)
        found = {exchange.name: exchange for exchange in router.exchanges() if query.search in exchange.name}
        names, more = await smallest(found, query.after or None, query.limit, pace)
        shown = [self._describe(router, found[name]) for name in names]
        given = {"namespace": query.namespace, "search": query.search, "limit": query.limit}
        return ExchangePage(shown, f"{EXCHANGES}?{urlencode(given | {'after': names[-1]})}" if more else None)

    async def declare_exchange(self, call: Call) -> Response:
        """Declare an exchange; one that is there and the same is no error."""
        wish: ExchangeWish = call.content
        router = self._router(wish.namespace)
        name = check_short(wish.name, "/name")
        new = NewExchange(name, wish.kind, wish.durable, wish.auto_delete, wish.internal, dict(wish.arguments))
        document = self._describe(router, await router.declare_exchange(new))
        path = path_of("v1", "exchanges", name)
        if wish.namespace != DEFAULT_NAMESPACE:
            path += f"?{urlencode({'namespace': wish.namespace})}"
        return encode_json(CREATED, document, (("location", path),))

    def get_exchange(self, call: Call) -> ExchangeDocument:
        """An exchange."""
        router = self._router(call.query.namespace)
        return self._describe(router, _find(router, call.path.name))

    async def delete_exchange(self, call: Call) -> None:
        """Delete an exchange with its bindings."""
        router = self._router(call.query.namespace)
        _find(router, call.path.name)
        await router.delete_exchange(call.path.name, if_unused=call.query.if_unused)

    async def list_bindings(self, call: Call) -> BindingPage:
        """Bindings that were made, by their ids; those of the default exchange are not among them."""
        query: BindingsQuery = call.query
        router = self._router(query.namespace)
        pace = Pace(self._broker.clock)
        found: dict[str, Binding] = {}
        fits = _fits(query)
        for binding in list(router.bindings()):
            if fits(binding):
                found[id_of(binding)] = binding
            await pace.step()
        ids, more = await smallest(found, query.after, query.limit, pace)
        shown = [describe_binding(found[one], query.namespace) for one in ids]
        given = {
            name: value
            for name in ("namespace", "exchange", "queue", "to_exchange", "limit")
            if (value := getattr(query, name)) is not None
        }
        return BindingPage(shown, f"{BINDINGS}?{urlencode(given | {'after': ids[-1]})}" if more else None)

    async def bind(self, call: Call) -> Response:
        """Make a binding; one that is there is no error."""
        wish: BindingWish = call.content
        router = self._router(wish.namespace)
        destination = destination_of(wish)
        _find(router, wish.exchange)
        durable = True
        if destination.kind is DestinationKind.QUEUE:
            queue = self._broker.queues.find(wish.namespace, destination.name)
            if queue is None:
                raise errors.UnknownQueue(f"no queue {destination.name}")
            durable = queue.properties.durable
        else:
            _find(router, destination.name)
        key = check_short(wish.routing_key, "/routing_key")
        arguments = dict(wish.arguments)
        await router.bind(wish.exchange, destination, key, arguments, durable=durable)
        made = Binding(wish.exchange, destination, key, arguments, durable, 0)
        return encode_json(CREATED, describe_binding(made, wish.namespace))

    async def unbind(self, call: Call) -> None:
        """Remove a binding."""
        router = self._router(call.query.namespace)
        pace = Pace(self._broker.clock)
        for binding in list(router.bindings()):
            if id_of(binding) == call.path.id:
                await router.unbind(binding.source, binding.destination, binding.routing_key, binding.arguments)
                return
            await pace.step()
        raise errors.UnknownBinding(f"no binding {call.path.id}")

    def _router(self, namespace: str) -> Router:
        if self._broker.namespaces.find(namespace) is None:
            raise errors.UnknownNamespace(f"no namespace {namespace}")
        return self._broker.routes.of(namespace)

    def _describe(self, router: Router, exchange: Exchange) -> ExchangeDocument:
        return describe_exchange(exchange, router.namespace, len(router.outgoing(exchange.name)))


def _find(router: Router, name: str) -> Exchange:
    exchange = router.find(name)
    if exchange is None:
        raise errors.UnknownExchange(f"no exchange {name}")
    return exchange


def _fits(query: BindingsQuery) -> Callable[[Binding], bool]:
    ends = []
    if query.queue is not None:
        ends.append(Destination(DestinationKind.QUEUE, query.queue))
    if query.to_exchange is not None:
        ends.append(Destination(DestinationKind.EXCHANGE, query.to_exchange))

    def fits(binding: Binding) -> bool:
        is_from = query.exchange in (None, binding.source)
        return is_from and (not ends or binding.destination in ends)

    return fits
