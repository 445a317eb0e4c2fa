"""The words of what holds for all topics, as adapters use them."""

from mainstem.coordination.broker_config import BROKER_NAMES, CLUSTER, TOPIC_NAMES

__all__ = ["BROKER_NAMES", "CLUSTER", "TOPIC_NAMES"]
