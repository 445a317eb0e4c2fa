"""What is measured of topics and subscriptions, in Pulsar's words. Backlogs are messages, and exact."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.log import Edge
from mainstem.broker.subscriptions.topic_subscriptions import Subscription
from mainstem.protocols.pulsar.handlers.consuming import TYPE_NAMES, PulsarConsumer
from mainstem.protocols.pulsar.handlers.parts import PulsarParts
from mainstem.protocols.pulsar.handlers.producing import Attached
from mainstem.protocols.pulsar.handlers.topics import Log
from mainstem.protocols.pulsar.mapping.names import TopicName

TYPES = {"exclusive": "Exclusive", "shared": "Shared", "failover": "Failover", "key": "Key_Shared"}


class Stats:
    """Of everything."""

    def __init__(self, parts: PulsarParts) -> None:
        self._parts = parts
        self._broker = parts.broker

    async def of_log(self, log: Log) -> dict[str, Any]:
        """One partition."""
        facts = await self._broker.read(log.number, (await self._broker.find(log.number, Edge.START)).offset, 0)
        attached = self._parts.producing.attached.get(log.number, Attached())
        publishers: list[dict[str, Any]] = [
            {
                "producerId": producer.id,
                "producerName": producer.name,
                "address": producer.connection.endpoints.peer,
                "connectedSince": self._parts.shown_time(producer.since_ms),
                "clientVersion": producer.connection.session.peer.library,
                "accessMode": "Exclusive" if producer.is_exclusive else "Shared",
                "msgRateIn": 0.0,
                "msgThroughputIn": 0.0,
                "averageMsgSize": 0.0,
                "metadata": {},
            }
            for producer in attached.by_name.values()
        ]
        subscriptions = {
            subscription.entry.name: await self.of_subscription(subscription)
            for subscription in self._parts.subscriptions_of(log)
        }
        return {
            "msgRateIn": 0.0,
            "msgThroughputIn": 0.0,
            "msgRateOut": 0.0,
            "msgThroughputOut": 0.0,
            "averageMsgSize": 0.0,
            "msgInCounter": facts.end,
            "storageSize": facts.stored_bytes,
            "backlogSize": facts.stored_bytes if any(one["msgBacklog"] for one in subscriptions.values()) else 0,
            "publishers": publishers,
            "subscriptions": subscriptions,
            "replication": {},
            "deduplicationStatus": "Enabled" if self._parts.producing.rules(log).is_deduplicated else "Disabled",
            "ownerBroker": self._parts.settings.cluster_name,
        }

    async def of_topic(self, name: TopicName, topic: Topic) -> dict[str, Any]:
        """All partitions together, and each."""
        logs = [Log(topic, number, log) for number, log in enumerate(topic.logs)]
        each = {str(name._replace(partition=log.partition)): await self.of_log(log) for log in logs}
        whole: dict[str, Any] = {
            "metadata": {"partitions": len(logs), "deleted": False},
            "msgInCounter": sum(one["msgInCounter"] for one in each.values()),
            "storageSize": sum(one["storageSize"] for one in each.values()),
            "publishers": [publisher for one in each.values() for publisher in one["publishers"]],
            "subscriptions": {},
            "partitions": each,
        }
        for one in each.values():
            for subscription, stats in one["subscriptions"].items():
                known = whole["subscriptions"].setdefault(
                    subscription, {**stats, "msgBacklog": 0, "unackedMessages": 0}
                )
                known["msgBacklog"] += stats["msgBacklog"]
                known["unackedMessages"] += stats["unackedMessages"]
        return whole

    async def of_subscription(self, subscription: Subscription) -> dict[str, Any]:
        """One of a partition."""
        await self._parts.load(subscription)
        queue = subscription.queue
        assert queue is not None
        consumers = self._parts.subscribing.consumers.get(queue, [])
        delayed = sum(len(lane.cursor.rests) for lane in queue.lanes)
        active = next((one.name for one in consumers if one.is_active), "")
        properties = subscription.entry.properties
        return {
            "msgRateOut": 0.0,
            "msgThroughputOut": 0.0,
            "msgRateRedeliver": 0.0,
            "msgRateExpired": 0.0,
            "msgOutCounter": queue.delivered,
            "msgBacklog": queue.ready_count + queue.unsettled_count,
            "msgBacklogNoDelayed": queue.ready_count + queue.unsettled_count - delayed,
            "msgDelayed": delayed,
            "unackedMessages": queue.unsettled_count,
            "blockedSubscriptionOnUnackedMsgs": False,
            "type": TYPES[properties.ordering] if consumers else "None",
            "activeConsumerName": active,
            "isDurable": properties.durable,
            "isReplicated": False,
            "consumers": [self._of_consumer(one) for one in consumers],
            "subscriptionProperties": subscription_properties(subscription),
        }

    def _of_consumer(self, consumer: PulsarConsumer) -> dict[str, Any]:
        return {
            "consumerName": consumer.name,
            "type": TYPE_NAMES[consumer.kind],
            "availablePermits": max(consumer.permits, 0),
            "unackedMessages": max(consumer.held, 0),
            "blockedConsumerOnUnackedMsgs": consumer.room <= 0 < consumer.permits,
            "msgOutCounter": consumer.delivered,
            "msgRateOut": 0.0,
            "msgThroughputOut": 0.0,
            "msgRateRedeliver": 0.0,
            "address": consumer.connection.endpoints.peer,
            "connectedSince": self._parts.shown_time(consumer.since_ms),
            "clientVersion": consumer.connection.session.peer.library,
            "metadata": {one.key: one.value for one in consumer.said.metadata},
        }

    async def ledgers(self, log: Log) -> dict[str, Any]:
        """The log is one ledger."""
        start = (await self._broker.find(log.number, Edge.START)).offset
        facts = await self._broker.read(log.number, start, 0)
        cursors: dict[str, Any] = {}
        for subscription in self._parts.subscriptions_of(log):
            await self._parts.load(subscription)
            assert subscription.queue is not None
            for lane in subscription.queue.lanes:
                cursors[subscription.entry.name] = {
                    "markDeletePosition": f"{log.number}:{lane.cursor.floor - 1}",
                    "readPosition": f"{log.number}:{lane.tail}",
                    "individuallyDeletedMessages": "[]",
                    "messagesConsumedCounter": lane.cursor.floor + lane.cursor.settled_count,
                    "state": "Open",
                    "properties": {},
                }
        entries = facts.end - facts.start
        return {
            "entriesAddedCounter": facts.end,
            "numberOfEntries": entries,
            "totalSize": facts.stored_bytes,
            "currentLedgerEntries": entries,
            "currentLedgerSize": facts.stored_bytes,
            "waitingCursorsCount": 0,
            "pendingAddEntriesCount": 0,
            "lastConfirmedEntry": f"{log.number}:{facts.end - 1}",
            "state": "LedgerOpened",
            "ledgers": [{"ledgerId": log.number, "entries": entries, "size": facts.stored_bytes, "offloaded": False}],
            "cursors": cursors,
        }


def subscription_properties(subscription: Subscription) -> dict[str, str]:
    """What its first consumer said of it."""
    arguments = subscription.entry.properties.arguments
    found: dict[str, str] = msgspec.msgpack.decode(arguments) if arguments else {}
    return found
