"""The topology of a streams application, as its members describe it when they join.

Lists are kept sorted, and copartition groups by the names of their topics, so that two descriptions of one topology are equal
whatever order a client sends.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mainstem.coordination.errors import InvalidStreamsTopology


class InternalTopic(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A topic that the broker creates for the application."""

    name: str
    partitions: int
    """0: as many as the subtopologies around it need."""
    replication_factor: int
    """0 or -1: the broker's default."""
    configs: tuple[tuple[str, str], ...]


class Subtopology(msgspec.Struct, frozen=True, array_like=True):
    """A part of the topology whose tasks share nothing with the others but topics."""

    id: str
    source_topics: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]
    copartition_groups: tuple[tuple[str, ...], ...]
    """Names of source topics that must have the same number of partitions."""

    @property
    def input_topics(self) -> tuple[str, ...]:
        """All that its tasks consume."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_sources))


class StreamsTopology(msgspec.Struct, frozen=True, array_like=True):
    """All subtopologies, by id."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    @classmethod
    def of(cls, epoch: int, subtopologies: Iterable[Subtopology]) -> StreamsTopology:
        """Checked, in the order of the ids. Raises InvalidStreamsTopology."""
        ordered = tuple(sorted(subtopologies, key=lambda subtopology: subtopology.id))
        if len({subtopology.id for subtopology in ordered}) < len(ordered):
            raise InvalidStreamsTopology("two subtopologies have the same id")
        for subtopology in ordered:
            _check(subtopology)
        return cls(epoch, ordered)

    @property
    def required_topics(self) -> frozenset[str]:
        """Topics that must be there before a task can run."""
        return frozenset(
            name
            for subtopology in self.subtopologies
            for name in (*subtopology.input_topics, *(topic.name for topic in subtopology.changelogs))
        )

    @property
    def consumers(self) -> dict[str, str]:
        """The id of the subtopology that consumes a topic, by the topic's name."""
        return {name: subtopology.id for subtopology in self.subtopologies for name in subtopology.input_topics}


def _check(subtopology: Subtopology) -> None:
    if not subtopology.input_topics:
        raise InvalidStreamsTopology(f"subtopology {subtopology.id} has no source topic")
    for topic in subtopology.changelogs:
        if topic.partitions:
            raise InvalidStreamsTopology(
                f"changelog topic {topic.name} must leave its number of partitions open, and asks for {topic.partitions}"
            )
    for topic in subtopology.repartition_sources:
        if topic.partitions < 0:
            raise InvalidStreamsTopology(f"repartition topic {topic.name} asks for {topic.partitions} partitions")
