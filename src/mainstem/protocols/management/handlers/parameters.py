"""Parameters of components and of the whole: list, set, remove."""

from __future__ import annotations

from typing import Any

from mainstem.broker.administration import Parameter
from mainstem.broker.broker import Broker
from mainstem.protocols.management.errors import BadRequest
from mainstem.protocols.management.handlers.callers import POLICYMAKER
from mainstem.protocols.management.handlers.paths import Call, Path, created
from mainstem.protocols.management.mapping.administration import (
    parameter_row,
)
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
        body = call.fields()
        if "value" not in body:
            raise BadRequest("key_missing: value")
        wanted = Parameter(namespace, component, name, body["value"])
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
        found = self._parameters.entries.values()
        return [{"name": each.name, "value": each.value} for each in found if not each.component]

    def get_global(self, call: Call) -> Any:
        """One of them."""
        call.caller.need(POLICYMAKER)
        found = self._parameters.find("", "", call.steps[0])
        return {"name": found.name, "value": found.value}

    async def put_global(self, call: Call) -> Response:
        """Set it."""
        call.caller.need(POLICYMAKER)
        body = call.fields()
        if "value" not in body:
            raise BadRequest("key_missing: value")
        wanted = Parameter("", "", call.steps[0], body["value"])
        is_new = wanted.key() not in self._parameters.entries
        await self._parameters.put(wanted)
        return created(is_new)

    async def delete_global(self, call: Call) -> None:
        """It is not set any more."""
        call.caller.need(POLICYMAKER)
        await self._parameters.remove(self._parameters.find("", "", call.steps[0]))
