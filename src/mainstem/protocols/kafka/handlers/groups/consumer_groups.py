"""Groups by the newer protocol (KIP-848): the broker assigns, members are told in their heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.errors import UnknownGroup
from mainstem.broker.groups.directed_groups import JOINS, Beat, DirectedGroup
from mainstem.broker.groups.groups import TopicPlace
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.groups.assigned_groups import by_named_topic, describe_all, tell
from mainstem.protocols.kafka.handlers.groups.classic_groups import DIRECTED_STATES, group_code
from mainstem.protocols.kafka.mapping import written_host
from mainstem.wire.kafka import ApiKey, ErrorCode

OWN_IDS_FROM = 1
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


class ConsumerGroupHandlers:
    """ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

    def __init__(self, broker: Broker) -> None:
        self._groups = broker.groups
        self._directed = broker.directed_groups
        self._shared = broker.share_groups
        self._topics = broker.topics.by_id

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.CONSUMER_GROUP_HEARTBEAT: Served(self.heartbeat, 0, 1),
            ApiKey.CONSUMER_GROUP_DESCRIBE: Served(self.describe, 0, 1),
        }

    async def heartbeat(self, call: Call) -> Body:
        """The member lives, may say what has changed, and is told what has."""
        body = call.body
        message = _check(call)
        if message is not None:
            return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": message}
        beat = Beat(
            member_id=body.member_id,
            epoch=body.member_epoch,
            client_id=call.client_id,
            client_host=call.connection.host,
            topics=None if body.subscribed_topic_names is None else frozenset(body.subscribed_topic_names),
            pattern=body.subscribed_topic_regex,
            instance_id=body.instance_id,
            rack_id=body.rack_id,
            rebalance_timeout_ms=body.rebalance_timeout_ms,
            assignor=body.server_assignor,
            owned=None if body.topic_partitions is None else _places(body.topic_partitions),
        )
        try:
            if body.group_id in self._shared:
                raise UnknownGroup(f"Group {body.group_id} is not a consumer group.")
            told = await self._groups.beat(body.group_id, beat)
        except MainstemError as error:
            return {"error_code": group_code(error), "error_message": str(error)}
        return tell(told, self._directed.rules(body.group_id))

    def describe(self, call: Call) -> Body:
        """Groups with their members, what these work on, and what they should."""
        return describe_all(call, lambda name: _describe(self._directed.get(name), self._topics))


def _check(call: Call) -> str | None:
    """What a heartbeat must and must not say, whatever the group."""
    body = call.body
    if not body.group_id:
        return "GroupId can't be empty."
    if not body.member_id and (body.member_epoch != JOINS or call.version >= OWN_IDS_FROM):
        return "MemberId can't be empty."
    if body.member_epoch != JOINS:
        return None
    if body.rebalance_timeout_ms < 0:
        return "RebalanceTimeoutMs must be provided in first request."
    if body.topic_partitions is None or body.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def _places(topics: Iterable[Any]) -> frozenset[TopicPlace]:
    return frozenset(TopicPlace(topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def _describe(group: DirectedGroup, topics: Mapping[UUID, Topic]) -> Body:
    return {
        "group_id": group.name,
        "group_state": DIRECTED_STATES[group.state],
        "group_epoch": group.epoch,
        "assignment_epoch": group.epoch,
        "assignor_name": group.assignor,
        "members": [
            {
                "member_id": member.id,
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "member_epoch": member.epoch,
                "client_id": member.client_id,
                "client_host": written_host(member.client_host),
                "subscribed_topic_names": sorted(member.topics),
                "subscribed_topic_regex": None if member.pattern is None else member.pattern.text,
                "assignment": by_named_topic(member.share | member.revoking, topics),
                "target_assignment": by_named_topic(group.target.get(member.id, ()), topics),
                "member_type": CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
            }
            for member in group.members.values()
        ],
    }
