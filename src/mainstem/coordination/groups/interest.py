"""Which topics the members of a group ask for, by name and by expression, as far as there are such."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mainstem.coordination.catalog.name_pattern import NamePattern
from mainstem.coordination.groups.topology import TopicShape, Topology


class Subscriber(Protocol):
    """A member, as far as topics are concerned."""

    topics: frozenset[str]
    pattern: NamePattern | None


class Interest:
    """What was found when somebody last looked. Expressions are matched again only when topics have changed."""

    def __init__(self) -> None:
        self.shapes: dict[str, TopicShape] = {}
        self._by_pattern: dict[str, frozenset[str]] = {}
        self._version: int | None = None

    def topics_of(self, member: Subscriber) -> frozenset[str]:
        """By name, and those that its expression stands for."""
        if member.pattern is None:
            return member.topics
        return member.topics | self._by_pattern.get(member.pattern.text, frozenset())

    def subscribed(self, members: Iterable[Subscriber]) -> frozenset[str]:
        """All that somebody asks for, whether there are such topics or not."""
        return frozenset[str]().union(*map(self.topics_of, members))

    def has_moved(self, members: Iterable[Subscriber], topology: Topology) -> bool:
        """Whether topics that somebody asks for have come, gone or grown."""
        return topology.version != self._version and self.look(members, topology)

    def look(self, members: Iterable[Subscriber], topology: Topology) -> bool:
        """See what there is; answers whether it is something else than before."""
        members = list(members)
        before = self.shapes, self._by_pattern
        patterns = {member.pattern.text: member.pattern for member in members if member.pattern is not None}
        self._by_pattern = {
            text: frozenset(name for name in topology if pattern.matches(name)) for text, pattern in patterns.items()
        }
        self.shapes = {name: topology[name] for name in sorted(self.subscribed(members)) if name in topology}
        self._version = topology.version
        return before != (self.shapes, self._by_pattern)
