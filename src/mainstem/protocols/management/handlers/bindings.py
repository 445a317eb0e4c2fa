"""Bindings: list, make, remove."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from mainstem.broker.broker import Broker
from mainstem.broker.routes import Binding, Destination, DestinationKind
from mainstem.protocols.management.errors import NotFound
from mainstem.protocols.management.handlers.callers import Caller
from mainstem.protocols.management.handlers.paths import CREATED, Call, Path
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.listing import listing
from mainstem.protocols.management.mapping.rows import binding_row, default_binding_row, properties_key
from mainstem.protocols.management.mapping.words import exchange_of
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

    def _rows(self, namespace: str) -> list[dict[str, Any]]:
        rows = [default_binding_row(queue.name, namespace) for queue in self._broker.queues.all(namespace)]
        return rows + [binding_row(binding, namespace) for binding in self._broker.routes.of(namespace).bindings()]


class _Ends:
    """Bindings between an exchange and a queue, or another exchange."""

    def __init__(self, broker: Broker, kind: DestinationKind) -> None:
        self._broker = broker
        self._kind = kind

    def list_between(self, call: Call) -> Any:
        """All between two ends."""
        namespace, source, destination = self._ends(call)
        if not source and self._kind is DestinationKind.QUEUE:
            return [default_binding_row(destination.name, namespace)]
        return [binding_row(binding, namespace) for binding in self._between(namespace, source, destination)]

    async def bind(self, call: Call) -> Response:
        """Make one; 201 with its place."""
        namespace, source, destination = self._ends(call)
        body = call.fields()
        key, arguments = fields.text(body, "routing_key", ""), fields.table(body, "arguments")
        await bind(self._broker, call.caller, namespace, source, destination, key, arguments)
        made = [
            binding
            for binding in self._between(namespace, source, destination)
            if binding.routing_key == key and dict(binding.arguments) == arguments
        ]
        place = quote(properties_key(made[0]), safe="") if made else "~"
        return Response(CREATED, headers=(("location", place),))

    def get(self, call: Call) -> Any:
        """One of them."""
        namespace, source, destination = self._ends(call)
        return binding_row(self._find(call, namespace, source, destination), namespace)

    async def unbind(self, call: Call) -> None:
        """Remove one."""
        namespace, source, destination = self._ends(call)
        binding = self._find(call, namespace, source, destination)
        _check(call.caller, namespace, source, destination)
        await self._broker.routes.of(namespace).unbind(source, destination, binding.routing_key, binding.arguments)

    def _ends(self, call: Call) -> tuple[str, str, Destination]:
        namespace = call.caller.enter(call.steps[0])
        source, name = exchange_of(call.steps[1]), call.steps[2]
        router = self._broker.routes.of(namespace)
        if self._kind is DestinationKind.EXCHANGE:
            name = exchange_of(name)
            is_there = router.find(name) is not None
        else:
            is_there = self._broker.queues.find(namespace, name) is not None
        if router.find(source) is None or not is_there:
            raise NotFound("Not Found")
        return namespace, source, Destination(self._kind, name)

    def _between(self, namespace: str, source: str, destination: Destination) -> list[Binding]:
        found = self._broker.routes.of(namespace).incoming(destination)
        return [binding for binding in found if binding.source == source]

    def _find(self, call: Call, namespace: str, source: str, destination: Destination) -> Binding:
        wanted = call.steps[3]
        for binding in self._between(namespace, source, destination):
            # Clients encode the key of properties, in which the routing key is encoded already; some do so only once.
            plain = (
                f"{binding.routing_key}~{binding.arguments_digest}" if binding.arguments else binding.routing_key or "~"
            )
            if wanted in (properties_key(binding), plain):
                return binding
        raise NotFound("Not Found")


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
    _check(caller, namespace, source, destination)
    fields.short("routing_key", routing_key)
    durable = True
    if destination.kind is DestinationKind.QUEUE:
        queue = broker.queues.find(namespace, destination.name)
        if queue is None:
            raise NotFound("Not Found")
        durable = queue.properties.durable
    await broker.routes.of(namespace).bind(source, destination, routing_key, arguments, durable=durable)


def _check(caller: Caller, namespace: str, source: str, destination: Destination) -> None:
    caller.check(namespace, "read", source, "exchange")
    caller.check(namespace, "write", destination.name, destination.kind.value)
