"""Parameters of components and of the whole: list, set, remove."""

from __future__ import annotations

from typing import Any

from mainstem.broker.administration import Parameter
from mainstem.broker.broker import CLUSTER_NAME, Broker
from mainstem.protocols.management.errors import BadRequest, NotFound
from mainstem.protocols.management.handlers.callers import POLICYMAKER
from mainstem.protocols.management.handlers.paths import Call, Path, created
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.administration import (
    parameter_row,
)
from mainstem.protocols.management.mapping.listing import Row
from mainstem.wire.http.messages import Response


class ParameterPaths:
    """/api/parameters, /api/global-parameters."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._parameters = broker.parameters

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/parameters", self.list),
            Path("GET", "/parameters/{}", self.list),
            Path("GET", "/parameters/{}/{}", self.list),
            Path("GET", "/parameters/{}/{}/{}", self.get),
            Path("PUT", "/parameters/{}/{}/{}", self.put),
            Path("DELETE", "/parameters/{}/{}/{}", self.delete),
            Path("GET", "/global-parameters", self.list_global),
            Path("GET", "/global-parameters/{}", self.get_global),
            Path("PUT", "/global-parameters/{}", self.put_global),
            Path("DELETE", "/global-parameters/{}", self.delete_global),
        ]

    def list(self, call: Call) -> Any:
        """All, of one component, or of one component in one virtual host."""
        call.caller.need(POLICYMAKER)
        steps = [*call.steps, "", ""]
        found = [each for each in self._parameters.entries.values() if each.component]
        if steps[0]:
            found = [each for each in found if each.component == steps[0]]
        if steps[1]:
            namespace = call.caller.enter(steps[1])
            found = [each for each in found if each.namespace == namespace]
        return [parameter_row(each) for each in found]

    def get(self, call: Call) -> Any:
        """One of them."""
        call.caller.need(POLICYMAKER)
        return parameter_row(self._find(call))

    async def put(self, call: Call) -> Response:
        """Set it."""
        call.caller.need(POLICYMAKER)
        component, host, name = call.steps
        namespace = call.caller.enter(host)
        wanted = Parameter(namespace, component, name, fields.value(call.fields(), "value"))
        is_new = wanted.key() not in self._parameters.entries
        await self._parameters.put(wanted)
        return created(is_new)

    async def delete(self, call: Call) -> None:
        """It is not set any more."""
        call.caller.need(POLICYMAKER)
        await self._parameters.remove(self._find(call))

    def _find(self, call: Call) -> Parameter:
        component, host, name = call.steps
        return self._parameters.find(call.caller.enter(host), component, name)

    def list_global(self, call: Call) -> Any:
        """Those of no component."""
        call.caller.need(POLICYMAKER)
        return global_rows(self._broker)

    def get_global(self, call: Call) -> Any:
        """One of them."""
        call.caller.need(POLICYMAKER)
        found = [row for row in global_rows(self._broker) if row["name"] == call.steps[0]]
        if not found:
            raise NotFound
        return found[0]

    async def put_global(self, call: Call) -> Response:
        """Set it."""
        call.caller.need(POLICYMAKER)
        name = call.steps[0]
        is_new = all(row["name"] != name for row in global_rows(self._broker))
        await put_global(self._broker, name, fields.value(call.fields(), "value"))
        return created(is_new)

    async def delete_global(self, call: Call) -> None:
        """It is not set any more; one that is always there is what it was at first."""
        call.caller.need(POLICYMAKER)
        name = call.steps[0]
        stored = self._parameters.entries.get(("", "", name))
        if stored is not None:
            await self._parameters.remove(stored)
        elif name not in _at_first(self._broker):
            raise NotFound


def global_rows(broker: Broker) -> list[Row]:
    """All that are set, and those that are always there, by name."""
    stored = {each.name: each.value for each in broker.parameters.entries.values() if not each.component}
    values = _at_first(broker) | stored
    return [{"name": name, "value": values[name]} for name in sorted(values)]


async def put_global(broker: Broker, name: str, value: Any) -> None:
    """Set it. Raises BadRequest, InvalidEntry."""
    if name == CLUSTER_NAME and not isinstance(value, str):
        raise BadRequest(f"{name} must be a string")
    await broker.parameters.put(Parameter("", "", name, value))


def _at_first(broker: Broker) -> Row:
    """What nobody has set."""
    return {CLUSTER_NAME: broker.cluster_id, "internal_cluster_id": f"rabbitmq-cluster-id-{broker.cluster_id}"}
