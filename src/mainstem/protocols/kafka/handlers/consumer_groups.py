"""Groups by the newer protocol (KIP-848): the broker assigns, members are told in their heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from mainstem.broker.broker import Broker
from mainstem.broker.directed_groups import Beat, DirectedGroup
from mainstem.broker.errors import UnknownGroup
from mainstem.broker.groups import TopicPlace
from mainstem.broker.topics import Topic
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.handlers.groups import DIRECTED_STATES, group_code
from mainstem.protocols.kafka.handlers.requests import Body, Call, Served
from mainstem.protocols.kafka.mapping import GROUP_OPERATIONS, NOT_ASKED
from mainstem.protocols.kafka.session import KafkaSettings
from mainstem.wire.kafka import ApiKey, ErrorCode

JOINS = 0
OWN_IDS_FROM = 1
CONSUMER_MEMBER = 1


class ConsumerGroupHandlers:
    """ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

    def __init__(self, broker: Broker, settings: KafkaSettings) -> None:
        self._groups = broker.groups
        self._directed = broker.directed_groups
        self._shared = broker.share_groups
        self._topics = broker.topics.by_id
        self._heartbeat_interval_ms = settings.consumer_group_heartbeat_interval_ms

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.CONSUMER_GROUP_HEARTBEAT: Served(self.heartbeat, 0, 1),
            ApiKey.CONSUMER_GROUP_DESCRIBE: Served(self.describe, 0, 1),
        }

    async def heartbeat(self, call: Call) -> Body:
        """The member lives, may say what has changed, and is told what has."""
        body = call.body
        refusal = _check(call)
        if refusal is not None:
            return {"error_code": refusal[0], "error_message": refusal[1]}
        beat = Beat(
            member_id=body.member_id,
            epoch=body.member_epoch,
            instance_id=body.instance_id,
            rack_id=body.rack_id,
            client_id=call.client_id,
            rebalance_timeout_ms=body.rebalance_timeout_ms,
            topics=None if body.subscribed_topic_names is None else frozenset(body.subscribed_topic_names),
            assignor=body.server_assignor,
            owned=None if body.topic_partitions is None else _places(body.topic_partitions),
        )
        try:
            if body.group_id in self._shared:
                raise UnknownGroup(f"{body.group_id} is a share group")
            self._groups.check_directed(body.group_id)
            told = await self._directed.beat(body.group_id, beat)
        except MainstemError as error:
            return {"error_code": group_code(error), "error_message": str(error)}
        share = None if told.share is None else {"topic_partitions": by_topic(told.share)}
        return {
            "member_id": told.member_id,
            "member_epoch": told.epoch,
            "heartbeat_interval_ms": self._heartbeat_interval_ms,
            "assignment": share,
        }

    def describe(self, call: Call) -> Body:
        """Groups with their members, what these work on, and what they should."""
        operations = GROUP_OPERATIONS if call.body.include_authorized_operations else NOT_ASKED
        described: list[Body] = []
        for name in call.body.group_ids:
            try:
                group = _describe(self._directed.get(name), self._topics)
                described.append(group | {"authorized_operations": operations})
            except UnknownGroup:
                message = f"Group {name} not found."
                code = ErrorCode.GROUP_ID_NOT_FOUND
                described.append({"error_code": code, "error_message": message, "group_id": name})
        return {"groups": described}


def _check(call: Call) -> tuple[ErrorCode, str] | None:
    """What a heartbeat must and must not say, whatever the group."""
    body = call.body
    if not body.group_id:
        return ErrorCode.INVALID_REQUEST, "GroupId can't be empty."
    if body.subscribed_topic_regex:
        return ErrorCode.INVALID_REGULAR_EXPRESSION, "Subscriptions by regular expression are not supported."
    if body.member_epoch != JOINS:
        return None if body.member_id else (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if call.version >= OWN_IDS_FROM and not body.member_id:
        return ErrorCode.INVALID_REQUEST, "MemberId can't be empty."
    if body.rebalance_timeout_ms < 0:
        return ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request."
    if body.topic_partitions is None or body.topic_partitions:
        return ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining."
    if body.subscribed_topic_names is None:
        return ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request."
    return None


def _places(topics: Iterable[Any]) -> frozenset[TopicPlace]:
    return frozenset(TopicPlace(topic.topic_id, partition) for topic in topics for partition in topic.partitions)


def by_topic(places: Iterable[TopicPlace]) -> list[Body]:
    """Partitions by topic, both in order."""
    grouped: dict[UUID, list[int]] = {}
    for place in sorted(places):
        grouped.setdefault(place.topic, []).append(place.partition)
    return [{"topic_id": topic, "partitions": partitions} for topic, partitions in grouped.items()]


def _describe(group: DirectedGroup, topics: Mapping[UUID, Topic]) -> Body:
    def named(places: Iterable[TopicPlace]) -> Body:
        known = [entry for entry in by_topic(places) if entry["topic_id"] in topics]
        return {"topic_partitions": [entry | {"topic_name": topics[entry["topic_id"]].name} for entry in known]}

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
                "client_host": "",
                "subscribed_topic_names": sorted(member.topics),
                "assignment": named(member.share),
                "target_assignment": named(group.target.get(member.id, ())),
                "member_type": CONSUMER_MEMBER,
            }
            for member in group.members.values()
        ],
    }
