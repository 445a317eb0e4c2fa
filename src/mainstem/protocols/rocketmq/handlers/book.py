"""What administrators, or first uses, say about groups and topics: durable, and the same for both protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainstem.broker.administration import Parameter
from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.protocols.rocketmq.mapping.names import RETRY_NAMESPACE, name_of

GROUPS, TOPICS = "rocketmq-group", "rocketmq-topic"
"""Components of parameters."""
RETRIES = 16
FIFO = "FIFO"
MESSAGE_TYPE = "message.type"


class GroupBook:
    """Configurations of groups, and types of topics."""

    def __init__(self, broker: Broker) -> None:
        self._parameters = broker.parameters

    def _find(self, component: str, name: str) -> Mapping[str, Any] | None:
        found = self._parameters.entries.get((RETRY_NAMESPACE, component, name))
        return None if found is None else found.value

    # Groups

    def group(self, name: str) -> dict[str, Any]:
        """As administrators see it; one that was never configured has the defaults."""
        defaults = {
            "groupName": name,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "consumeBroadcastEnable": True,
            "consumeMessageOrderly": False,
            "retryQueueNums": 1,
            "retryMaxTimes": RETRIES,
            "brokerId": 0,
            "whichBrokerWhenConsumeSlowly": 1,
            "notifyConsumerIdsChangedEnable": True,
            "groupSysFlag": 0,
            "consumeTimeoutMinute": 15,
            "attributes": {},
        }
        return {**defaults, **(self._find(GROUPS, name) or {})}

    def groups(self) -> list[str]:
        """Those that were configured."""
        return [name for _, component, name in self._parameters.entries if component == GROUPS]

    async def put_group(self, name: str, *, is_ordered: bool, retries_max: int) -> None:
        """Durable when answered. Raises kinds of MainstemError."""
        value = {"consumeMessageOrderly": is_ordered, "retryMaxTimes": retries_max}
        await self._parameters.put(Parameter(RETRY_NAMESPACE, GROUPS, name, value))

    async def remove_group(self, name: str) -> None:
        """It has the defaults again."""
        found = self._parameters.entries.get((RETRY_NAMESPACE, GROUPS, name))
        if found is not None:
            await self._parameters.remove(found)

    def is_ordered(self, name: str) -> bool:
        """Whether messages of one message group are given to it one after the other."""
        return bool((self._find(GROUPS, name) or {}).get("consumeMessageOrderly"))

    def retries_max(self, name: str, default: int) -> int:
        """Before a message is a dead letter."""
        return int((self._find(GROUPS, name) or {}).get("retryMaxTimes", default))

    # Topics

    def type_of(self, topic: Topic) -> str:
        """Of its messages; empty: whatever comes."""
        return str((self._find(TOPICS, name_of(topic)) or {}).get(MESSAGE_TYPE, ""))

    def is_fifo(self, topic: Topic) -> bool:
        """Whether its messages have message groups."""
        return self.type_of(topic) == FIFO

    async def put_type(self, topic: Topic, kind: str) -> None:
        """Durable when answered. Raises kinds of MainstemError."""
        await self._parameters.put(Parameter(RETRY_NAMESPACE, TOPICS, name_of(topic), {MESSAGE_TYPE: kind}))
