"""Topologies of streams applications, and topics for them."""

import uuid

from mainstem.coordination.groups.streams.topology import InternalTopic, StreamsTopology, Subtopology
from mainstem.coordination.groups.topology import TopicShape
from tests.support.worlds.topologies import Topics


def topics(**partitions: int) -> Topics:
    """Topics by name, with their numbers of partitions."""
    return Topics({name: TopicShape(uuid.uuid5(uuid.NAMESPACE_DNS, name), count) for name, count in partitions.items()})


def internal(name: str, partitions: int = 0, **configs: str) -> InternalTopic:
    return InternalTopic(name, partitions, 0, tuple(sorted(configs.items())))


def part(
    id_: str,
    sources: tuple[str, ...] = (),
    *,
    sinks: tuple[str, ...] = (),
    repartition: tuple[InternalTopic, ...] = (),
    changelogs: tuple[InternalTopic, ...] = (),
    together: tuple[tuple[str, ...], ...] = (),
) -> Subtopology:
    return Subtopology(id_, sources, sinks, repartition, changelogs, together)


def application(*parts: Subtopology, epoch: int = 0) -> StreamsTopology:
    return StreamsTopology.of(epoch, parts)


COUNTING = application(
    part("0", ("words",), sinks=("by-word",)),
    part("1", repartition=(internal("by-word"),), changelogs=(internal("counts", **{"cleanup.policy": "compact"}),)),
)
"""Reads a topic, repartitions it, and keeps a count."""
