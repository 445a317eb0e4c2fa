"""Bindings: list, make, remove."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from mainstem.broker.broker import Broker
from mainstem.broker.routes import Binding, Destination, DestinationKind, binding_identity
from mainstem.protocols.management.errors import Forbidden, Missing, NotFound
from mainstem.protocols.management.handlers.callers import Caller
from mainstem.protocols.management.handlers.paths import CREATED, Call, Path
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.listing import Row, listing
from mainstem.protocols.management.mapping.rows import binding_row, binding_rows, default_binding, properties_key
from mainstem.protocols.management.mapping.words import exchange_of, host_of
from mainstem.wire.http.messages import Response


class BindingPaths:
    """/api/bindings."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def paths(self) -> list[Path]:
        """What is served here."""
        found = [Path("GET", "/bindings", self.list_all), Path("GET", "/bindings/{}", self.list_host)]
        kinds = {"q": DestinationKind.QUEUE, "e": DestinationKind.EXCHANGE}
        for letter, kind in kinds.items():
            both = f"/bindings/{{}}/e/{{}}/{letter}/{{}}"
            ends = _Ends(self._broker, kind)
            found += [
                Path("GET", both, ends.list_between),
                Path("POST", both, ends.bind),
                Path("GET", both + "/{}", ends.get),
                Path("DELETE", both + "/{}", ends.unbind),
            ]
        return found

    def list_all(self, call: Call) -> Any:
        """Of all virtual hosts that the caller may see."""
        names = [namespace.name for namespace in self._broker.namespaces.all() if call.caller.may_see(namespace.name)]
        return listing([row for name in names for row in self._rows(name)], call.query)

    def list_host(self, call: Call) -> Any:
        """Of one virtual host."""
        return listing(self._rows(call.caller.enter(call.steps[0])), call.query)

    def _rows(self, namespace: str) -> list[Row]:
        bindings = [default_binding(queue) for queue in self._broker.queues.all(namespace)]
        return binding_rows([*bindings, *self._broker.routes.of(namespace).bindings()], namespace)


class _Ends:
    """Bindings between an exchange and a queue, or another exchange."""

    def __init__(self, broker: Broker, kind: DestinationKind) -> None:
        self._broker = broker
        self._kind = kind

    def list_between(self, call: Call) -> Any:
        """All between two ends."""
        return binding_rows(self._between(call), call.caller.enter(call.steps[0]))

    async def bind(self, call: Call) -> Response:
        """Make one; 201 with its place, as seen from that of both ends."""
        namespace, source, destination = self._ends(call)
        body = call.fields()
        key, arguments = fields.text(body, "routing_key", ""), fields.table(body, "arguments")
        await bind(self._broker, call.caller, namespace, source, destination, key, arguments)
        identity = binding_identity(source, destination, key, arguments)
        made = [properties_key(each) for each in self._between(call) if each.identity == identity]
        place = [quote(part, safe="") for part in (call.steps[2], *made)]
        return Response(CREATED, headers=(("location", "/".join(place)),))

    def get(self, call: Call) -> Any:
        """One of them."""
        return binding_row(self._find(call), call.caller.enter(call.steps[0]))

    async def unbind(self, call: Call) -> None:
        """Remove one."""
        namespace, source, destination = self._ends(call)
        binding = self._find(call)
        _check(call.caller, namespace, source, destination)
        await self._broker.routes.of(namespace).unbind(source, destination, binding.routing_key, binding.arguments)

    def _ends(self, call: Call) -> tuple[str, str, Destination]:
        namespace, source, name = call.caller.enter(call.steps[0]), exchange_of(call.steps[1]), call.steps[2]
        if self._kind is DestinationKind.EXCHANGE:
            name = exchange_of(name)
        return namespace, source, Destination(self._kind, name)

    def _between(self, call: Call) -> list[Binding]:
        """Raises NotFound."""
        namespace, source, destination = self._ends(call)
        if _missing(self._broker, namespace, source, destination):
            raise NotFound
        return [each for each in bindings_to(self._broker, namespace, destination) if each.source == source]

    def _find(self, call: Call) -> Binding:
        wanted = call.steps[3]
        for binding in self._between(call):
            # Clients encode the key of properties, in which the routing key is encoded already; some do so only once.
            plain = (
                f"{binding.routing_key}~{binding.arguments_digest}" if binding.arguments else binding.routing_key or "~"
            )
            if wanted in (properties_key(binding), plain):
                return binding
        raise NotFound


def bindings_to(broker: Broker, namespace: str, destination: Destination) -> list[Binding]:
    """All that lead there."""
    found = broker.routes.of(namespace).incoming(destination)
    queue = broker.queues.find(namespace, destination.name) if destination.kind is DestinationKind.QUEUE else None
    return found if queue is None else [default_binding(queue), *found]


def bindings_from(broker: Broker, namespace: str, exchange: str) -> list[Binding]:
    """All that begin at an exchange."""
    if not exchange:
        return [default_binding(queue) for queue in broker.queues.all(namespace)]
    return broker.routes.of(namespace).outgoing(exchange)


async def bind(
    broker: Broker,
    caller: Caller,
    namespace: str,
    source: str,
    destination: Destination,
    routing_key: str,
    arguments: dict[str, Any],
) -> None:
    """Make a binding. Raises ManagementError and kinds of MainstemError."""
    missing = _missing(broker, namespace, source, destination)
    if missing:
        raise Missing(f"no {missing} in vhost '{host_of(namespace)}'")
    _check(caller, namespace, source, destination)
    fields.short("routing_key", routing_key)
    durable = True
    if destination.kind is DestinationKind.QUEUE:
        queue = broker.queues.find(namespace, destination.name)
        durable = queue is not None and queue.properties.durable
    await broker.routes.of(namespace).bind(source, destination, routing_key, arguments, durable=durable)


def _missing(broker: Broker, namespace: str, source: str, destination: Destination) -> str:
    """Which end is not there; empty: both are."""
    router = broker.routes.of(namespace)
    if router.find(source) is None:
        return f"exchange '{source}'"
    if destination.kind is DestinationKind.QUEUE:
        is_there = broker.queues.find(namespace, destination.name) is not None
    else:
        is_there = router.find(destination.name) is not None
    return "" if is_there else f"{destination.kind.value} '{destination.name}'"


def _check(caller: Caller, namespace: str, source: str, destination: Destination) -> None:
    if not source:
        raise Forbidden("Access refused.")
    caller.check(namespace, "read", source, "exchange")
    caller.check(namespace, "write", destination.name, destination.kind.value)
