"""What a queue promises, as the configuration of its logs and of the topic as which it is seen."""

from __future__ import annotations

from mainstem.broker.queues.settings import QueueSettings
from mainstem.coordination.catalog.topic_config import log_config
from mainstem.coordination.errors import InvalidQueue
from mainstem.coordination.queues.properties import PRIORITY_MAX, QueueProperties
from mainstem.storage.contract import LogConfig

BATCH_BYTES_MAX = 1 << 30
"""No message is as large: protocols limit them, and what one commit can carry does."""


def check_properties(properties: QueueProperties) -> None:
    """Raises InvalidQueue."""
    if not 0 <= properties.priority_max <= PRIORITY_MAX:
        raise InvalidQueue(f"priority_max {properties.priority_max} is not between 0 and {PRIORITY_MAX}")
    for name in ("message_ttl_ms", "length_max", "bytes_max", "retention_ms", "retention_bytes", "age_max_ms"):
        value = getattr(properties, name)
        if value is not None and value < 0:
            raise InvalidQueue(f"{name} {value} is negative")
    if properties.expires_ms is not None and properties.expires_ms <= 0:
        raise InvalidQueue(f"expires_ms {properties.expires_ms} is not positive")
    if properties.lease_ms is not None and properties.lease_ms <= 0:
        raise InvalidQueue(f"lease_ms {properties.lease_ms} is not positive")
    if properties.kind == "stream" and (properties.lease_ms or properties.retry or properties.ordering != "shared"):
        raise InvalidQueue("a stream has no leases, no retries and no ordering")
    if properties.priority_max and properties.ordering == "key":
        raise InvalidQueue("a queue with priorities cannot keep the order of keys")
    if properties.kind != "classic" and not properties.is_lasting:
        raise InvalidQueue(f"a {properties.kind} queue is durable and not exclusive")


def topic_configs(properties: QueueProperties, settings: QueueSettings) -> dict[str, str]:
    """The same, as a topic's configuration says it."""
    retention_ms = settings.retention_ms if properties.retention_ms is None else properties.retention_ms
    retention_bytes = settings.retention_bytes if properties.retention_bytes is None else properties.retention_bytes
    if properties.kind == "stream":
        retention_ms = -1 if properties.age_max_ms is None else properties.age_max_ms
        retention_bytes = -1 if properties.bytes_max is None else properties.bytes_max
    return {
        "max.message.bytes": str(BATCH_BYTES_MAX),
        "retention.bytes": str(retention_bytes),
        "retention.ms": str(retention_ms),
    }


def queue_log_config(properties: QueueProperties, configs: dict[str, str]) -> LogConfig:
    """What the logs of such a queue promise."""
    if not properties.is_lasting:
        # It ends with the broker: nothing to sync for, nothing to rewind to.
        return LogConfig(flush="os", batch_bytes_max=BATCH_BYTES_MAX, acknowledged="release")
    return log_config(configs, is_queue=properties.kind != "stream")
