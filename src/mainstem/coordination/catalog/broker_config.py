"""Settings of the broker that can be changed while it runs, by the names that Kafka has for them.

They are set for the cluster (by the empty name) or for the one node, which goes before. Most of them hold for all topics
that do not say otherwise; STORED lists those that are only stored and shown.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainstem.coordination.catalog.broker_facts import BROKER_FACTS, BrokerFact
from mainstem.coordination.catalog.topic_config import LONG_MAX, check_number, check_topic_config, read_boolean
from mainstem.coordination.errors import InvalidBrokerConfig, InvalidTopicConfig

CLUSTER = ""
"""In place of a node: all of them."""

TOPIC_NAMES: Mapping[str, str] = {
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleanup.policy": "cleanup.policy",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.local.retention.bytes": "local.retention.bytes",
    "log.local.retention.ms": "local.retention.ms",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.preallocate": "preallocate",
    "log.retention.bytes": "retention.bytes",
    "log.retention.ms": "retention.ms",
    "log.roll.jitter.ms": "segment.jitter.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.bytes": "segment.bytes",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "message.max.bytes": "max.message.bytes",
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""What each is called where it is set for one topic."""
BROKER_NAMES: Mapping[str, str] = {topic_name: name for name, topic_name in TOPIC_NAMES.items()}


REPLICATION_RATES = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""What tools set while they move replicas. Kafka does not describe them unless they are set."""
SET_AT_START = frozenset({"group.streams.assignment.interval.ms"})
"""What has an effect here and cannot be changed while the broker runs, unlike in Kafka."""
STORED: Mapping[str, BrokerFact] = {
    **{
        name: fact
        for name, fact in BROKER_FACTS.items()
        if fact.is_dynamic and name not in TOPIC_NAMES and name not in SET_AT_START
    },
    **{name: BrokerFact(name, "long", str(LONG_MAX), True, 0) for name in REPLICATION_RATES},
}
"""What is checked, stored and shown, and has no effect."""
INT_MAX, SHORT_MAX = 2**31 - 1, 2**15 - 1
_NUMBER_MAX = {"int": INT_MAX, "long": LONG_MAX, "short": SHORT_MAX}


def check_broker_config(configs: Mapping[str, str]) -> None:
    """Raises InvalidBrokerConfig for a name that cannot be changed while the broker runs, or a value that is not taken."""
    for name, value in configs.items():
        if name in TOPIC_NAMES:
            _check_for_topics(name, {TOPIC_NAMES[name]: value})
        elif name in STORED:
            _check_stored(STORED[name], value)
        elif name in BROKER_FACTS:
            raise InvalidBrokerConfig(f"Cannot update these configs dynamically: [{name}]")
        else:
            raise InvalidBrokerConfig(f"{name} is not a configuration of a broker")
    _check_for_topics("together", topic_defaults(configs, {}))


def _check_for_topics(name: str, configs: Mapping[str, str]) -> None:
    try:
        check_topic_config(configs)
    except InvalidTopicConfig as error:
        raise InvalidBrokerConfig(f"{name}: {error}") from None


def _check_stored(fact: BrokerFact, value: str) -> None:
    try:
        if fact.kind in _NUMBER_MAX:
            most = _NUMBER_MAX[fact.kind]
            check_number(value, -most - 1 if fact.low is None else fact.low, most)
        elif fact.kind == "double":
            float(value)
        elif fact.kind == "boolean":
            read_boolean(value)
    except ValueError as error:
        raise InvalidBrokerConfig(f"Invalid value {value} for configuration {fact.name}: {error}") from None


def topic_defaults(cluster: Mapping[str, str], node: Mapping[str, str]) -> dict[str, str]:
    """What holds for topics, by the names that topics have for it."""
    return {TOPIC_NAMES[name]: value for name, value in {**cluster, **node}.items() if name in TOPIC_NAMES}
