"""Policies, of users and of operators: list, set, remove."""

from __future__ import annotations

from typing import Any

from mainstem.broker.administration import Policy
from mainstem.broker.broker import Broker
from mainstem.protocols.management.handlers.callers import POLICYMAKER, Caller
from mainstem.protocols.management.handlers.paths import Call, Path, created
from mainstem.protocols.management.mapping.administration import (
    policy_from,
    policy_row,
)
from mainstem.protocols.management.mapping.listing import listing
from mainstem.wire.http.messages import Response


class PolicyPaths:
    """/api/policies, or /api/operator-policies."""

    def __init__(self, broker: Broker, *, is_operators: bool) -> None:
        self._broker = broker
        self._is_operators = is_operators

    def paths(self) -> list[Path]:
        """What is served here."""
        root = "/operator-policies" if self._is_operators else "/policies"
        return [
            Path("GET", root, self.list),
            Path("GET", root + "/{}", self.list_host),
            Path("GET", root + "/{}/{}", self.get),
            Path("PUT", root + "/{}/{}", self.put),
            Path("DELETE", root + "/{}/{}", self.delete),
        ]

    def _all(self) -> list[Policy]:
        return [
            policy for policy in self._broker.policies.entries.values() if policy.is_operators is self._is_operators
        ]

    def list(self, call: Call) -> Any:
        """Of all virtual hosts that the caller may see."""
        self._need(call.caller)
        seen = call.caller.visible(self._all(), lambda policy: policy.namespace)
        return listing([policy_row(policy) for policy in seen], call.query)

    def list_host(self, call: Call) -> Any:
        """Of one virtual host."""
        self._need(call.caller)
        namespace = call.caller.enter(call.steps[0])
        return [policy_row(policy) for policy in self._all() if policy.namespace == namespace]

    def get(self, call: Call) -> Any:
        """One of them."""
        self._need(call.caller)
        return policy_row(self._find(call))

    async def put(self, call: Call) -> Response:
        """Set it; it holds at once."""
        self._need(call.caller)
        namespace = call.caller.enter(call.steps[0])
        wanted = policy_from(namespace, call.steps[1], call.fields(), is_operators=self._is_operators)
        is_new = wanted.key() not in self._broker.policies.entries
        await self._broker.policies.put(wanted)
        return created(is_new)

    async def delete(self, call: Call) -> None:
        """It does not hold any more."""
        self._need(call.caller)
        await self._broker.policies.remove(self._find(call))

    def _need(self, caller: Caller) -> None:
        if self._is_operators:
            caller.need()
        else:
            caller.need(POLICYMAKER)

    def _find(self, call: Call) -> Policy:
        namespace = call.caller.enter(call.steps[0])
        return self._broker.policies.find(namespace, call.steps[1], is_operators=self._is_operators)
