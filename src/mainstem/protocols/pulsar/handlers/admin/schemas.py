"""Schemas of topics, over HTTP."""

from __future__ import annotations

from typing import Any

from mainstem.protocols.pulsar.errors import CommandRefused
from mainstem.protocols.pulsar.handlers.admin.paths import BAD_REQUEST, NOT_FOUND, AdminRefused, Call, Path
from mainstem.protocols.pulsar.handlers.admin.subscriptions import number_of
from mainstem.protocols.pulsar.handlers.parts import PulsarParts
from mainstem.protocols.pulsar.handlers.schemas import DESCRIBED, PLAIN, TopicSchema

BASE = "admin/v2/schemas/{}/{}/{}"


class SchemaPaths:
    """What is asked about schemas."""

    def __init__(self, parts: PulsarParts) -> None:
        self._parts = parts
        self._schemas = parts.schemas

    def paths(self) -> list[Path]:
        """All of them."""
        return [
            Path("GET", f"{BASE}/schema", self.newest),
            Path("GET", f"{BASE}/schema/{{}}", self.version),
            Path("GET", f"{BASE}/schemas", self.all_versions),
            Path("POST", f"{BASE}/schema", self.post),
            Path("DELETE", f"{BASE}/schema", self.remove),
            Path("POST", f"{BASE}/compatibility", self.compatibility),
        ]

    def newest(self, call: Call) -> dict[str, Any]:
        """The last version."""
        return _shown(*self._schemas.find(call.topic()))

    def version(self, call: Call) -> dict[str, Any]:
        """One version."""
        return _shown(*self._schemas.find(call.topic(), number_of(call.steps[3])))

    def all_versions(self, call: Call) -> dict[str, Any]:
        """Each."""
        return {"getSchemaResponses": [_shown(*one) for one in self._schemas.all_versions(call.topic())]}

    def _wish(self, call: Call) -> TopicSchema:
        body = call.object()
        kind, text, properties = body.get("type"), body.get("schema", ""), body.get("properties") or {}
        if kind not in (*DESCRIBED, *PLAIN) or not isinstance(text, str) or not isinstance(properties, dict):
            raise AdminRefused(BAD_REQUEST, "type, schema and properties are expected")
        return TopicSchema(
            kind, call.topic().local, text.encode(), {str(key): str(value) for key, value in properties.items()}
        )

    async def post(self, call: Call) -> dict[str, Any]:
        """One version more, or one that is there."""
        schema = self._wish(call)
        log = await self._parts.topics.open(call.topic()._replace(partition=0))
        version = await self._schemas.register(log.topic, schema)
        return {"version": {"version": int.from_bytes(version, "big")}}

    async def remove(self, call: Call) -> dict[str, Any]:
        """All versions go."""
        _, version = self._schemas.find(call.topic())
        await self._schemas.remove(call.topic())
        return {"version": {"version": version}}

    async def compatibility(self, call: Call) -> dict[str, Any]:
        """Whether it could be registered."""
        schema, topic = self._wish(call), self._parts.topics.find(call.topic())
        if topic is None:
            raise AdminRefused(NOT_FOUND, "Topic not found")
        strategy = str(self._parts.book.policy(topic, "schema_compatibility_strategy") or "FULL")
        try:
            if self._schemas.all_versions(call.topic()):
                await self._schemas.check(topic, schema)
        except CommandRefused:
            return {"compatibility": False, "schemaCompatibilityStrategy": strategy}
        return {"compatibility": True, "schemaCompatibilityStrategy": strategy}


def _shown(schema: TopicSchema, version: int) -> dict[str, Any]:
    return {
        "version": version,
        "type": schema.kind,
        "timestamp": 0,
        "data": schema.data.decode("utf-8", "replace"),
        "properties": schema.properties,
    }
