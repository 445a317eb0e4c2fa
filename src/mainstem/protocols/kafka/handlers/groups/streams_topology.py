"""The topology of a streams application: Kafka's messages <-> ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mainstem.broker.catalog.topics import check_topic_name
from mainstem.broker.errors import InvalidStreamsTopology, InvalidTopicName
from mainstem.broker.groups.streams_groups import InternalTopic, StreamsTopology, Subtopology, TopicPlan
from mainstem.protocols.kafka.handlers.calls import Body


def read_topology(said: Any) -> StreamsTopology:
    """From a heartbeat. Raises InvalidStreamsTopology."""
    topology = StreamsTopology.of(said.epoch, [_read_subtopology(part) for part in said.subtopologies])
    sinks = [sink for subtopology in topology.subtopologies for sink in subtopology.repartition_sinks]
    for name in sorted({*topology.required_topics, *sinks}):
        try:
            check_topic_name(name)
        except InvalidTopicName as error:
            raise InvalidStreamsTopology(str(error)) from None
    return topology


def _read_subtopology(said: Any) -> Subtopology:
    repartition = [topic.name for topic in said.repartition_source_topics]
    groups = [
        tuple(
            sorted(
                {*_pick(said.source_topics, group.source_topics), *_pick(repartition, group.repartition_source_topics)}
            )
        )
        for group in said.copartition_groups
    ]
    return Subtopology(
        said.subtopology_id,
        tuple(sorted(said.source_topics)),
        tuple(sorted(said.repartition_sink_topics)),
        _read_topics(said.repartition_source_topics),
        _read_topics(said.state_changelog_topics),
        tuple(sorted(groups)),
    )


def _read_topics(said: Iterable[Any]) -> tuple[InternalTopic, ...]:
    return tuple(
        sorted(
            InternalTopic(
                topic.name,
                topic.partitions,
                topic.replication_factor,
                tuple(sorted((config.key, config.value) for config in topic.topic_configs)),
            )
            for topic in said
        )
    )


def _pick(names: Sequence[str], indexes: Iterable[int]) -> list[str]:
    indexes = list(indexes)
    if not all(0 <= index < len(names) for index in indexes):
        raise InvalidStreamsTopology("a copartition group names a topic that the subtopology does not have")
    return [names[index] for index in indexes]


def write_topology(topology: StreamsTopology, plan: TopicPlan) -> Body:
    """For a description: with the numbers of partitions that were decided, once everything is there."""
    internal = plan.internal if plan.status is None else {}
    return {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "subtopology_id": subtopology.id,
                "source_topics": list(subtopology.source_topics),
                "repartition_sink_topics": list(subtopology.repartition_sinks),
                "state_changelog_topics": [
                    _write_topic(internal.get(topic.name, topic)) for topic in subtopology.changelogs
                ],
                "repartition_source_topics": [
                    _write_topic(internal.get(topic.name, topic)) for topic in subtopology.repartition_sources
                ],
            }
            for subtopology in topology.subtopologies
        ],
    }


def _write_topic(topic: InternalTopic) -> Body:
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "topic_configs": [{"key": key, "value": value} for key, value in topic.configs],
    }
