"""Virtual hosts and their limits: list, set, remove."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstem.broker.administration import Namespace
from mainstem.broker.broker import Broker
from mainstem.protocols.management.errors import BadRequest, PreconditionFailed
from mainstem.protocols.management.handlers.paths import Call, Path, created
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.administration import (
    PROTECTED,
    namespace_from,
    namespace_row,
)
from mainstem.protocols.management.mapping.amqp_words import connections_of
from mainstem.protocols.management.mapping.listing import Row, listing, one
from mainstem.protocols.management.mapping.words import host_of, namespace_of
from mainstem.wire.http.messages import Response


class HostPaths:
    """/api/vhosts, /api/vhost-limits."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/vhosts", self.list),
            Path("GET", "/vhosts/{}", self.get),
            Path("PUT", "/vhosts/{}", self.put),
            Path("DELETE", "/vhosts/{}", self.delete),
            Path("POST", "/vhosts/{}/deletion/protection", self.protect),
            Path("DELETE", "/vhosts/{}/deletion/protection", self.unprotect),
            Path("GET", "/vhost-limits", self.limits),
            Path("GET", "/vhost-limits/{}", self.limits_of),
            Path("PUT", "/vhost-limits/{}/{}", self.put_limit),
            Path("DELETE", "/vhost-limits/{}/{}", self.delete_limit),
        ]

    async def list(self, call: Call) -> Any:
        """Those that the caller may see."""
        seen = call.caller.visible(self._broker.namespaces.all(), lambda namespace: namespace.name)
        return listing([await self._row(namespace) for namespace in seen], call.query)

    async def get(self, call: Call) -> Any:
        """One of them."""
        return one(await self._row(self._broker.namespaces.get(call.caller.enter(call.steps[0]))), call.query)

    async def put(self, call: Call) -> Response:
        """Create it, or change what is said of it."""
        call.caller.need()
        namespace = namespace_of(call.steps[0])
        present = self._broker.namespaces.find(namespace)
        await self._broker.namespaces.put(namespace_from(namespace, call.fields(), present))
        if present is None:
            await call.caller.own(namespace)
        return created(present is None)

    async def protect(self, call: Call) -> None:
        """Nobody deletes it, until it is no longer so."""
        await self._change_protection(call, is_protected=True)

    async def unprotect(self, call: Call) -> None:
        """It may be deleted again."""
        await self._change_protection(call, is_protected=False)

    async def _change_protection(self, call: Call, *, is_protected: bool) -> None:
        call.caller.need()
        namespace = self._broker.namespaces.get(call.caller.enter(call.steps[0]))
        metadata = {**namespace.metadata, PROTECTED: is_protected}
        await self._broker.namespaces.put(msgspec.structs.replace(namespace, metadata=metadata))

    async def delete(self, call: Call) -> None:
        """Remove it with all that is in it."""
        call.caller.need()
        found = self._broker.namespaces.get(call.caller.enter(call.steps[0]))
        namespace = found.name
        if call.steps[0] == "/":
            raise BadRequest("the default virtual host stays")
        if found.metadata.get(PROTECTED):
            raise PreconditionFailed(f"Refusing to delete virtual host '{call.steps[0]}' because it is protected")
        for facts in connections_of(self._broker):
            if facts.namespace == namespace:
                facts.close(f"vhost '{call.steps[0]}' is deleted")
        for queue in self._broker.queues.all(namespace):
            await self._broker.queues.delete(queue)
        await self._broker.routes.of(namespace).clear()
        await self._broker.namespaces.remove(namespace)
        self._broker.routes.forget(namespace)

    async def _row(self, namespace: Namespace) -> Row:
        queues = self._broker.queues.all(namespace.name)
        await self._broker.queues.know(queues)
        ready = sum(queue.ready_count for queue in queues)
        unsettled = sum(queue.unsettled_count for queue in queues)
        counts = {"messages": ready + unsettled, "messages_ready": ready, "messages_unacknowledged": unsettled}
        return {**namespace_row(namespace), **counts}

    def limits(self, call: Call) -> Any:
        """Of all virtual hosts that the caller may see."""
        seen = call.caller.visible(self._broker.namespaces.all(), lambda namespace: namespace.name)
        return [_limits_row(namespace) for namespace in seen if namespace.limits]

    def limits_of(self, call: Call) -> Any:
        """Of one."""
        namespace = self._broker.namespaces.get(call.caller.enter(call.steps[0]))
        return [_limits_row(namespace)] if namespace.limits else []

    async def put_limit(self, call: Call) -> None:
        """Set one."""
        value = fields.number(call.fields(), "value")
        await self._change_limit(call, {call.steps[1]: value})

    async def delete_limit(self, call: Call) -> None:
        """No limit any more."""
        await self._change_limit(call, {})

    async def _change_limit(self, call: Call, added: dict[str, int]) -> None:
        call.caller.need()
        namespace = self._broker.namespaces.get(call.caller.enter(call.steps[0]))
        kept = {name: value for name, value in namespace.limits.items() if name != call.steps[1]}
        await self._broker.namespaces.put(msgspec.structs.replace(namespace, limits=kept | added))


def _limits_row(namespace: Namespace) -> Row:
    return {"vhost": host_of(namespace.name), "value": dict(namespace.limits)}
