"""What a topic says of its table: asked of the broker by the protocol that every reader speaks already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mainstem.sdk.client import Client
from mainstem.sdk.configs import broker_config, topic_configs
from mainstem.sdk.errors import UnknownTopic
from mainstem.sdk.operations import TopicPartition

TABLE, LOCATION, INTERVAL, RETENTION = "table", "table.location", "table.interval.ms", "table.retention.ms"
FORMAT, SCHEMA, MESSAGE = "value.format", "value.schema", "value.message"
REGISTRY = "registry"
DATA_DIRECTORY = "log.dir"
GROUP = "mainstem-table."
"""Under which a table is seen beside other consumers, with its lag."""


class TableFacts(NamedTuple):
    """A topic, and the table it has or could have."""

    topic: str
    topic_id: str
    partition_count: int
    is_table: bool
    location: str
    interval_ms: int
    retention_ms: int
    """Below 0: what is in the table stays."""
    value_options: dict[str, str]
    """How the source is told to decode values."""

    @property
    def partitions(self) -> list[TopicPartition]:
        """All of them."""
        return [TopicPartition(self.topic, index) for index in range(self.partition_count)]


def table_facts(client: Client, topic: str) -> TableFacts:
    """Raises UnknownTopic."""
    cluster = client.cluster([topic])
    keys = [TABLE, LOCATION, INTERVAL, RETENTION, FORMAT, SCHEMA, MESSAGE]
    configs = topic_configs(client, [topic], keys)[topic]
    topic_id = str(cluster.ids[topic])
    base = configs[LOCATION].rstrip("/") or f"{broker_config(client, DATA_DIRECTORY)}/tables/{topic}"
    return TableFacts(
        topic=topic,
        topic_id=topic_id,
        partition_count=len(cluster.leaders[topic]),
        is_table=configs[TABLE] == "true",
        location=f"{base}/{topic_id}",
        interval_ms=int(configs[INTERVAL]),
        retention_ms=int(configs[RETENTION]),
        value_options=_value_options(topic, configs),
    )


def table_topics(client: Client) -> list[str]:
    """Every topic that is to be kept as a table."""
    while True:
        names = sorted(client.partition_counts())
        try:
            configs = topic_configs(client, names, [TABLE])
        except UnknownTopic:
            continue  # deleted between the two questions
        return [name for name in names if configs[name][TABLE] == "true"]


def _value_options(topic: str, configs: Mapping[str, str]) -> dict[str, str]:
    found = {key: configs[key] for key in (FORMAT, SCHEMA, MESSAGE) if configs[key]}
    if found.get(FORMAT) == REGISTRY:
        found.setdefault(SCHEMA, f"{topic}-value")
    return found
