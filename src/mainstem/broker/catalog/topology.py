"""The catalog as groups see it."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from mainstem.coordination.catalog.catalog import DEFAULT_NAMESPACE, Catalog
from mainstem.coordination.groups.topology import TopicShape, Topology


class CatalogTopology(Topology):
    """The topics of a namespace."""

    __slots__ = ("_catalog", "_topics")

    def __init__(self, catalog: Catalog, namespace: str = DEFAULT_NAMESPACE) -> None:
        self._catalog = catalog
        self._topics = catalog.topics(namespace)

    @property
    def version(self) -> int:
        """Counts the changes of the catalog."""
        return self._catalog.changes

    def name_of(self, topic: UUID) -> str | None:
        """By id."""
        known = self._catalog.by_id.get(topic)
        return None if known is None else known.name

    def __getitem__(self, name: str) -> TopicShape:
        topic = self._topics[name]
        return TopicShape(topic.id, len(topic.logs))

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, name: object) -> bool:
        return name in self._topics
