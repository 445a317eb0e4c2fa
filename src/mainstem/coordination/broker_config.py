"""What holds for all topics that do not say otherwise, by the names that Kafka's brokers have for it.

Set for the cluster (by the empty name) or for the one node, which goes before; both can be changed while the broker runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainstem.coordination.errors import InvalidBrokerConfig, InvalidTopicConfig
from mainstem.coordination.topic_config import check_topic_config

CLUSTER = ""
"""In place of a node: all of them."""

TOPIC_NAMES: Mapping[str, str] = {
    "compression.type": "compression.type",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleanup.policy": "cleanup.policy",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.retention.bytes": "retention.bytes",
    "log.retention.ms": "retention.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.bytes": "segment.bytes",
    "message.max.bytes": "max.message.bytes",
    "min.insync.replicas": "min.insync.replicas",
}
"""What each is called where it is set for one topic."""
BROKER_NAMES: Mapping[str, str] = {topic_name: name for name, topic_name in TOPIC_NAMES.items()}


def check_broker_config(configs: Mapping[str, str]) -> None:
    """Raises InvalidBrokerConfig for the first name that cannot be changed while the broker runs, or value that is not kept."""
    for name, value in configs.items():
        topic_name = TOPIC_NAMES.get(name)
        if topic_name is None:
            raise InvalidBrokerConfig(f"Cannot update these configs dynamically: {name}")
        try:
            check_topic_config({topic_name: value})
        except InvalidTopicConfig as error:
            raise InvalidBrokerConfig(f"{name}: {error}") from None


def topic_defaults(cluster: Mapping[str, str], node: Mapping[str, str]) -> dict[str, str]:
    """What holds for topics, by the names that topics have for it."""
    return {TOPIC_NAMES[name]: value for name, value in {**cluster, **node}.items()}
