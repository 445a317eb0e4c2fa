"""The words of the broker's settings, as adapters use them."""

from mainstem.coordination.catalog.broker_config import BROKER_NAMES, CLUSTER, REPLICATION_RATES, STORED, TOPIC_NAMES
from mainstem.coordination.catalog.broker_facts import BROKER_FACTS, BrokerFact

__all__ = ["BROKER_FACTS", "BROKER_NAMES", "CLUSTER", "REPLICATION_RATES", "STORED", "TOPIC_NAMES", "BrokerFact"]
