"""Limits of clients, as administrators read and set them (KIP-546)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.clients.quotas import ADDRESS, CLIENT, USER, Entity, entity_of
from mainstem.broker.errors import InvalidQuota
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.wire.kafka import ApiKey, ErrorCode

EXACT, DEFAULT, SPECIFIED = range(3)


class RefusedFilter(Exception):
    """Nothing can be looked for like this."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(message)
        self.code = code


class QuotaHandlers:
    """DescribeClientQuotas, AlterClientQuotas."""

    def __init__(self, broker: Broker) -> None:
        self._quotas = broker.client_quotas

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.DESCRIBE_CLIENT_QUOTAS: Served(self.describe, 0, 1),
            ApiKey.ALTER_CLIENT_QUOTAS: Served(self.alter, 0, 1),
        }

    def describe(self, call: Call) -> Body:
        """Those that match all that is asked."""
        components = call.body.components
        try:
            _check_filter(components)
        except RefusedFilter as refusal:
            return {"error_code": refusal.code, "error_message": str(refusal), "entries": None}
        entries = [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                "values": [{"key": key, "value": number} for key, number in limits.items()],
            }
            for entity, limits in self._quotas.all().items()
            if _matches(entity, components, is_strict=call.body.strict)
        ]
        return {"error_code": ErrorCode.NONE, "error_message": None, "entries": entries}

    async def alter(self, call: Call) -> Body:
        """Each entity succeeds or fails alone; those that succeed are stored by one commit."""
        wishes: dict[Entity, dict[str, float | None]] = {}
        accepted: list[Body] = []
        results: list[Body] = []
        for entry in call.body.entries:
            result: Body = {
                "error_code": ErrorCode.NONE,
                "error_message": None,
                "entity": [{"entity_type": e.entity_type, "entity_name": e.entity_name} for e in entry.entity],
            }
            results.append(result)
            try:
                entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
                wish = {op.key: None if op.remove else op.value for op in entry.ops}
                if len(wish) < len(entry.ops):
                    raise InvalidQuota("A key is altered twice")
                self._quotas.check(entity, wish)
            except MainstemError as error:
                result |= {"error_code": code_of(error), "error_message": str(error)}
                continue
            wishes.setdefault(entity, {}).update(wish)
            accepted.append(result)
        try:
            if wishes and not call.body.validate_only:
                await self._quotas.alter(wishes)
        except MainstemError as error:
            for result in accepted:
                result |= {"error_code": code_of(error), "error_message": str(error)}
        return {"entries": results}


def _check_filter(components: Sequence[Any]) -> None:
    kinds = [component.entity_type for component in components]
    for component in components:
        kind, match = component.entity_type, component.match
        if not kind:
            raise RefusedFilter("Unexpected empty filter component entity type")
        if kind not in (USER, CLIENT, ADDRESS):
            raise RefusedFilter(f"Custom entity type '{kind}' not supported", ErrorCode.UNSUPPORTED_VERSION)
        if component.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise RefusedFilter(f"Unknown match type {component.match_type}")
        if (component.match_type == EXACT) != (match is not None):
            raise RefusedFilter("A match string goes with an exact match, and with nothing else")
    if len(set(kinds)) < len(kinds):
        raise RefusedFilter("Duplicate filter component for an entity type")
    if ADDRESS in kinds and len(kinds) > 1:
        raise RefusedFilter(
            "Invalid entity filter component combination, IP filter component should not be used with user or "
            "clientId filter component."
        )


def _matches(entity: Entity, components: Sequence[Any], *, is_strict: bool) -> bool:
    names = dict(entity)
    if is_strict and len(names) != len(components):
        return False
    return all(
        component.entity_type in names
        and (component.match_type == SPECIFIED or names[component.entity_type] == component.match)
        for component in components
    )
