"""Exchanges: list, declare, delete, publish."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.envelopes import Address
from mainstem.broker.errors import UnknownExchange
from mainstem.broker.queues import REFUSED
from mainstem.broker.routes import Destination, DestinationKind, Exchange, NewExchange
from mainstem.broker.schedules import Target
from mainstem.protocols.management.errors import BadRequest, Forbidden
from mainstem.protocols.management.handlers.bindings import bindings_from, bindings_to
from mainstem.protocols.management.handlers.callers import Caller
from mainstem.protocols.management.handlers.paths import Call, Path, created
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.amqp_words import dialect_of
from mainstem.protocols.management.mapping.listing import listing, one
from mainstem.protocols.management.mapping.rows import binding_rows, exchange_row
from mainstem.protocols.management.mapping.words import exchange_of
from mainstem.wire.http.messages import Response

PROPERTIES_LEVELS_MAX = fields.NESTED_LEVELS_MAX + 1
"""Of a message: its headers are a table among them."""


class ExchangePaths:
    """/api/exchanges."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/exchanges", self.list_all),
            Path("GET", "/exchanges/{}", self.list_host),
            Path("GET", "/exchanges/{}/{}", self.get),
            Path("PUT", "/exchanges/{}/{}", self.declare),
            Path("DELETE", "/exchanges/{}/{}", self.delete),
            Path("GET", "/exchanges/{}/{}/bindings/source", self.outgoing),
            Path("GET", "/exchanges/{}/{}/bindings/destination", self.incoming),
            Path("POST", "/exchanges/{}/{}/publish", self.publish),
        ]

    def list_all(self, call: Call) -> Any:
        """Of all virtual hosts that the caller may see."""
        rows = [
            exchange_row(exchange, namespace.name, self._broker)
            for namespace in self._broker.namespaces.all()
            if call.caller.may_see(namespace.name)
            for exchange in self._broker.routes.of(namespace.name).exchanges()
        ]
        return listing(rows, call.query)

    def list_host(self, call: Call) -> Any:
        """Of one virtual host."""
        namespace = call.caller.enter(call.steps[0])
        found = self._broker.routes.of(namespace).exchanges()
        return listing([exchange_row(exchange, namespace, self._broker) for exchange in found], call.query)

    def get(self, call: Call) -> Any:
        """One exchange."""
        namespace, exchange = self._find(call)
        return one({**exchange_row(exchange, namespace, self._broker), "incoming": [], "outgoing": []}, call.query)

    async def declare(self, call: Call) -> Response:
        """Declare it; 201 when it is new."""
        namespace = call.caller.enter(call.steps[0])
        return created(await declare_exchange(self._broker, call.caller, namespace, call.steps[1], call.fields()))

    async def delete(self, call: Call) -> None:
        """Delete it, unless it is in use and that was asked for."""
        namespace, exchange = self._find(call)
        call.caller.check(namespace, "configure", exchange.name, "exchange")
        if_unused = call.query.get("if-unused") == "true"
        await self._broker.routes.of(namespace).delete_exchange(exchange.name, if_unused=if_unused)

    def outgoing(self, call: Call) -> Any:
        """Bindings that begin at it."""
        namespace, exchange = self._find(call)
        found = bindings_from(self._broker, namespace, exchange.name)
        return listing(binding_rows(found, namespace), call.query)

    def incoming(self, call: Call) -> Any:
        """Bindings that lead to it."""
        namespace, exchange = self._find(call)
        destination = Destination(DestinationKind.EXCHANGE, exchange.name)
        found = bindings_to(self._broker, namespace, destination)
        return listing(binding_rows(found, namespace), call.query)

    async def publish(self, call: Call) -> dict[str, bool]:
        """Publish one message, answered when it is durable; `routed` says whether it went anywhere."""
        namespace, exchange = self._find(call)
        call.caller.check(namespace, "write", exchange.name, "exchange")
        if exchange.internal:
            raise Forbidden(f"cannot publish to internal exchange '{exchange.name}'")
        body = call.fields()
        key, payload = fields.short("routing_key", fields.text(body, "routing_key")), _payload(body)
        properties = fields.table(body, "properties", PROPERTIES_LEVELS_MAX)
        sealed = dialect_of(self._broker).seal(Address(exchange.name, (key,)), properties)
        routed = self._broker.routes.of(namespace).route_all(
            exchange.name, sealed.routing_keys, lambda: sealed.plain_headers, lambda: properties
        )
        found = [self._broker.queues.find(namespace, name) for name in routed.queues]
        queues = [queue for queue in found if queue is not None]
        outbox = self._broker.queues.outbox
        taken = bool(routed.delayed)
        if queues:
            outcome = outbox.put(
                queues, sealed.headers, payload, key=sealed.key, ttl_ms=sealed.ttl_ms, priority=sealed.priority
            )
            taken = taken or outcome != REFUSED
        for delayed in routed.delayed:
            self._broker.schedules.schedule(
                Target(namespace, delayed.exchange, sealed.routing_keys),
                sealed.headers,
                payload,
                due_ms=self._broker.clock.now_ms() + delayed.delay_ms,
                key=sealed.key,
                ttl_ms=sealed.ttl_ms,
                priority=sealed.priority,
            )
        await outbox.wait_durable()
        return {"routed": taken}

    def _find(self, call: Call) -> tuple[str, Exchange]:
        namespace = call.caller.enter(call.steps[0])
        exchange = self._broker.routes.of(namespace).find(exchange_of(call.steps[1]))
        if exchange is None:
            raise UnknownExchange(call.steps[1])
        return namespace, exchange


async def declare_exchange(broker: Broker, caller: Caller, namespace: str, name: str, body: dict[str, Any]) -> bool:
    """Declare an exchange; answers whether it is new. Raises ManagementError and kinds of MainstemError."""
    router = broker.routes.of(namespace)
    caller.check(namespace, "configure", name, "exchange")
    is_new = router.find(name) is None
    wish = NewExchange(
        fields.short("exchange", name),
        fields.text(body, "type", "direct"),
        fields.flag(body, "durable"),
        fields.flag(body, "auto_delete"),
        fields.flag(body, "internal"),
        fields.table(body, "arguments"),
    )
    try:
        await router.declare_exchange(wish)
    except UnknownExchange as error:
        raise BadRequest(str(error)) from None
    return is_new


def _payload(body: dict[str, Any]) -> bytes:
    payload = fields.text(body, "payload")
    encoding = fields.text(body, "payload_encoding", "string")
    if encoding == "string":
        return payload.encode()
    if encoding != "base64":
        raise BadRequest(f"unsupported payload encoding {encoding!r}")
    try:
        return base64.b64decode(payload, validate=True)
    except binascii.Error:
        raise BadRequest("the payload is not base64") from None
