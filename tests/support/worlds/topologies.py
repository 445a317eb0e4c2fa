"""Topics for groups, without a catalog."""

from uuid import UUID

from mainstem.coordination.groups.topology import TopicShape, Topology


class Topics(dict[str, TopicShape], Topology):
    """As a dictionary; its version is what it holds."""

    @property
    def version(self) -> int:
        return hash(frozenset(self.items()))

    def name_of(self, topic: UUID) -> str | None:
        return next((name for name, shape in self.items() if shape.id == topic), None)
