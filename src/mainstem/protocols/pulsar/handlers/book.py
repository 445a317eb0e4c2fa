"""What administrators, or first uses, say about tenants, namespaces and topics: durable, and the same for both listeners."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from mainstem.broker.administration import Namespace, Parameter
from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.errors import UnknownEntry
from mainstem.protocols.pulsar.mapping.names import PUBLIC, SYSTEM, namespace_of, place_of

HOME = "pulsar"
"""The namespace of the parameters about tenants and namespaces."""
TENANT, NAMESPACE, TOPIC = "pulsar-tenant", "pulsar-namespace", "pulsar-topic"
"""Components of parameters."""
TENANTS = ("public", "pulsar")
"""Those that are always there."""


class Book:
    """All that is set."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._parameters = broker.parameters
        self.version = 0
        """Grows when something is set."""

    def _find(self, namespace: str, component: str, name: str) -> dict[str, Any]:
        found = self._parameters.entries.get((namespace, component, name))
        return {} if found is None else dict(found.value)

    async def _put(self, namespace: str, component: str, name: str, value: Mapping[str, Any]) -> None:
        await self._parameters.put(Parameter(namespace, component, name, dict(value)))
        self.version += 1

    async def _remove(self, namespace: str, component: str, name: str) -> None:
        with contextlib.suppress(UnknownEntry):
            await self._parameters.remove(self._parameters.find(namespace, component, name))
        self.version += 1

    # Tenants

    def tenants(self) -> list[str]:
        """By name."""
        stored = {name for home, component, name in self._parameters.entries if (home, component) == (HOME, TENANT)}
        return sorted({*stored, *TENANTS, *(place.split("/")[0] for place in self.places())})

    def tenant(self, name: str) -> dict[str, Any]:
        """What is set for one."""
        return self._find(HOME, TENANT, name)

    async def put_tenant(self, name: str, value: Mapping[str, Any]) -> None:
        """Durable when answered."""
        await self._put(HOME, TENANT, name, value)

    async def remove_tenant(self, name: str) -> None:
        """Durable when answered."""
        await self._remove(HOME, TENANT, name)

    # Namespaces

    def places(self) -> list[str]:
        """Tenant and namespace of each."""
        found = {place_of(namespace.name) for namespace in self._broker.namespaces.all()}
        return sorted({PUBLIC, SYSTEM, *(place for place in found if place is not None)})

    def has_place(self, place: str) -> bool:
        """Whether there is such a namespace."""
        return place in (PUBLIC, SYSTEM) or self._broker.namespaces.find(namespace_of(place)) is not None

    async def add_place(self, place: str) -> None:
        """A namespace more. Durable when answered."""
        if not self.has_place(place):
            await self._broker.namespaces.put(Namespace(namespace_of(place)))

    async def remove_place(self, place: str) -> None:
        """What was set for it goes too."""
        await self._remove(HOME, NAMESPACE, place)
        await self._broker.namespaces.remove(namespace_of(place))

    def policies(self, place: str) -> dict[str, Any]:
        """What is set for a namespace."""
        return self._find(HOME, NAMESPACE, place)

    async def put_policy(self, place: str, name: str, value: Any) -> None:
        """Durable when answered; None: it is not set."""
        policies = self.policies(place)
        policies.pop(name, None)
        if value is not None:
            policies[name] = value
        await self._put(HOME, NAMESPACE, place, policies)

    # Topics

    def facts(self, topic: Topic) -> dict[str, Any]:
        """What is known of a topic; nothing of another one that had its name."""
        found = self._find(topic.namespace, TOPIC, topic.name)
        return found if found.get("id") == topic.id.hex else {}

    async def put_fact(self, topic: Topic, name: str, value: Any) -> None:
        """Durable when answered; None: it is not known."""
        facts = {**self.facts(topic), "id": topic.id.hex}
        facts.pop(name, None)
        if value is not None:
            facts[name] = value
        await self._put(topic.namespace, TOPIC, topic.name, facts)

    async def forget(self, topic: Topic) -> None:
        """The topic is gone."""
        await self._remove(topic.namespace, TOPIC, topic.name)

    def policy(self, topic: Topic, name: str) -> Any:
        """What is in force for a topic: its own word, else that of its namespace."""
        own = self.facts(topic).get("policies", {}).get(name)
        if own is not None:
            return own
        place = place_of(topic.namespace)
        return None if place is None else self.policies(place).get(name)
