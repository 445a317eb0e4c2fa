"""Which internal topics a streams application needs, and how many tasks it has, given the topics that there are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from mainstem.coordination.errors import InvalidStreamsTopology
from mainstem.coordination.groups.streams.heartbeats import Status, StatusCode
from mainstem.coordination.groups.streams.topology import InternalTopic, StreamsTopology, Subtopology
from mainstem.coordination.groups.topology import TopicShape

TASKS_MAX = 20_000
"""Tasks of one application: to assign more would keep the event loop from other work for more than a second."""
NAMES_SHOWN_MAX = 3


class TopicPlan(NamedTuple):
    """What is there and what is missing."""

    status: Status | None = None
    """Why no task can run; None: everything is there."""
    task_counts: Mapping[str, int] = {}
    """Tasks by subtopology; empty when they cannot be known."""
    internal: Mapping[str, InternalTopic] = {}
    """Internal topics with their decided numbers of partitions, by name."""
    missing: tuple[InternalTopic, ...] = ()
    """Those that must be created."""


class _Misfit(Exception):
    """Topics whose numbers of partitions do not go together."""


def plan_topics(topology: StreamsTopology, topics: Mapping[str, TopicShape]) -> TopicPlan:
    """What the application needs. Raises InvalidStreamsTopology."""
    absent = {name for subtopology in topology.subtopologies for name in subtopology.source_topics} - topics.keys()
    if absent:
        detail = f"Source topics {_some(absent)} are missing."
        return TopicPlan(Status(StatusCode.MISSING_SOURCE_TOPICS, detail))
    counts = _Counts(topology, topics)
    try:
        counts.decide()
        internal = counts.internal_topics()
    except _Misfit as misfit:
        return TopicPlan(Status(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(misfit)))
    task_counts = {subtopology.id: counts.tasks_of(subtopology) for subtopology in topology.subtopologies}
    if sum(task_counts.values()) > TASKS_MAX:
        raise InvalidStreamsTopology(f"the application has more than {TASKS_MAX} tasks")
    missing = tuple(topic for name, topic in sorted(internal.items()) if name not in topics)
    status = None
    if missing:
        detail = f"Internal topics are missing: {_some(topic.name for topic in missing)}"
        status = Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return TopicPlan(status, task_counts, internal, missing)


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - NAMES_SHOWN_MAX
    return ", ".join(ordered[:NAMES_SHOWN_MAX]) + (f" and {more} additional topics" if more > 0 else "")


class _Counts:
    """Numbers of partitions: of topics that are there, and those decided for internal ones."""

    def __init__(self, topology: StreamsTopology, topics: Mapping[str, TopicShape]) -> None:
        self._subtopologies = topology.subtopologies
        self._topics = topics
        self._decided: dict[str, int] = {}
        self._repartition = {
            topic.name: topic for subtopology in topology.subtopologies for topic in subtopology.repartition_sources
        }

    def decide(self) -> None:
        """Repartition topics first, then what copartition asks of them, then changelogs."""
        self._decided |= {name: topic.partitions for name, topic in self._repartition.items() if topic.partitions}
        self._follow_sources()
        undecided = self._repartition.keys() - self._decided.keys()
        if undecided:
            raise InvalidStreamsTopology(f"no subtopology writes the repartition topics {_some(undecided)}")
        for subtopology in self._subtopologies:
            for group in subtopology.copartition_groups:
                self._level(group)
        for subtopology in self._subtopologies:
            partitions = self.tasks_of(subtopology)
            self._decided |= {topic.name: partitions for topic in subtopology.changelogs}

    def _follow_sources(self) -> None:
        """A repartition topic has as many partitions as the largest source of the subtopology that writes it.

        A subtopology may read other repartition topics, so this goes round until all are decided. One whose sources are
        not all known waits for the others; only where that leads nowhere does it go by the sources that are known.
        """
        open_sinks = [
            (subtopology, sink)
            for subtopology in self._subtopologies
            for sink in subtopology.repartition_sinks
            if sink not in self._decided
        ]
        while open_sinks:
            found = self._sizes(open_sinks, whole=True) or self._sizes(open_sinks, whole=False)
            if not found:
                raise InvalidStreamsTopology("the repartition topics go in a circle: no number of partitions follows")
            self._decided |= found
            open_sinks = [(subtopology, sink) for subtopology, sink in open_sinks if sink not in self._decided]

    def _sizes(self, sinks: Iterable[tuple[Subtopology, str]], *, whole: bool) -> dict[str, int]:
        found: dict[str, int] = {}
        for subtopology, sink in sinks:
            known = [self._count(name) for name in subtopology.input_topics]
            sizes = [count for count in known if count is not None]
            if sizes and (len(sizes) == len(known) or not whole):
                found.setdefault(sink, max(sizes))
        return found

    def _level(self, group: Collection[str]) -> None:
        """Give the repartition topics of a copartition group the number of partitions that all must have."""
        internal = [name for name in group if name in self._repartition]
        given = [name for name in group if name not in self._repartition]
        fixed = [name for name in internal if self._repartition[name].partitions]
        sizes = {name: self._sure_count(name) for name in group}
        decisive = {name: sizes[name] for name in given or fixed or internal}
        if not decisive:
            return
        size = max(decisive.values())
        is_bound = bool(given or fixed)
        if (is_bound and min(decisive.values()) != size) or any(sizes[name] != size for name in fixed):
            shown = ", ".join(f"{name}={count}" for name, count in sorted(sizes.items()))
            raise _Misfit(f"Following topics do not have the same number of partitions: [{{{shown}}}]")
        self._decided |= dict.fromkeys(internal, size)

    def internal_topics(self) -> dict[str, InternalTopic]:
        """By name, with their decided numbers of partitions. Raises _Misfit."""
        internal: dict[str, InternalTopic] = {}
        for subtopology in self._subtopologies:
            for topic in (*subtopology.repartition_sources, *subtopology.changelogs):
                expected = topic.partitions or self._decided[topic.name]
                present = self._topics.get(topic.name)
                if present is not None and present.partitions != expected:
                    raise _Misfit(
                        f"Existing topic {topic.name} has different number of partitions: "
                        f"expected {expected}, found {present.partitions}"
                    )
                internal[topic.name] = InternalTopic(topic.name, expected, topic.replication_factor, topic.configs)
        return internal

    def tasks_of(self, subtopology: Subtopology) -> int:
        """As many as its largest source has partitions."""
        return max(self._sure_count(name) for name in subtopology.input_topics)

    def _count(self, name: str) -> int | None:
        if name in self._repartition:
            return self._decided.get(name)
        present = self._topics.get(name)
        return None if present is None else present.partitions

    def _sure_count(self, name: str) -> int:
        count = self._count(name)
        if count is None:
            raise InvalidStreamsTopology(f"{name} is no source topic of the topology")
        return count
