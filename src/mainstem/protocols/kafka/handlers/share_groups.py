"""Share groups (KIP-932): members show that they live and are told which partitions to take records from."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from mainstem.broker.broker import Broker
from mainstem.broker.errors import UnknownGroup
from mainstem.broker.share_groups import ShareBeat, ShareGroup
from mainstem.broker.topics import Topic
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.handlers.consumer_groups import by_topic
from mainstem.protocols.kafka.handlers.groups import group_code
from mainstem.protocols.kafka.handlers.requests import Body, Call, Served
from mainstem.protocols.kafka.mapping import GROUP_OPERATIONS, NOT_ASKED
from mainstem.protocols.kafka.session import KafkaSettings
from mainstem.wire.kafka import ApiKey, ErrorCode

JOINS, LEAVES = 0, -1
ASSIGNOR = "simple"


class ShareGroupHandlers:
    """ShareGroupHeartbeat, ShareGroupDescribe."""

    def __init__(self, broker: Broker, settings: KafkaSettings) -> None:
        self._groups = broker.share_groups
        self._others = broker.groups
        self._topics = broker.topics.by_id
        self._heartbeat_interval_ms = settings.consumer_group_heartbeat_interval_ms

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.SHARE_GROUP_HEARTBEAT: Served(self.heartbeat, 1, 1),
            ApiKey.SHARE_GROUP_DESCRIBE: Served(self.describe, 1, 1),
        }

    async def heartbeat(self, call: Call) -> Body:
        """The member lives, may say what has changed, and is told what has."""
        body = call.body
        message = _check(call)
        if message is not None:
            return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": message}
        beat = ShareBeat(
            member_id=body.member_id,
            epoch=body.member_epoch,
            rack_id=body.rack_id,
            client_id=call.client_id,
            topics=None if body.subscribed_topic_names is None else frozenset(body.subscribed_topic_names),
        )
        try:
            if body.group_id not in self._groups and body.group_id in self._others.names():
                raise UnknownGroup(f"Group {body.group_id} is not a share group.")
            told = await self._groups.beat(body.group_id, beat)
        except MainstemError as error:
            return {"error_code": group_code(error), "error_message": str(error)}
        return {
            "member_id": told.member_id,
            "member_epoch": told.epoch,
            "heartbeat_interval_ms": self._heartbeat_interval_ms,
            "assignment": None if told.share is None else {"topic_partitions": by_topic(told.share)},
        }

    def describe(self, call: Call) -> Body:
        """Groups with their members, and what these take records from."""
        operations = GROUP_OPERATIONS if call.body.include_authorized_operations else NOT_ASKED
        described: list[Body] = []
        for name in call.body.group_ids:
            try:
                group = _describe(self._groups.get(name), self._topics)
                described.append(group | {"authorized_operations": operations})
            except UnknownGroup:
                message = f"Group {name} not found."
                code = ErrorCode.GROUP_ID_NOT_FOUND
                described.append({"error_code": code, "error_message": message, "group_id": name})
        return {"groups": described}


def share_state(group: ShareGroup) -> str:
    """As Kafka calls it."""
    return "Stable" if group.members else "Empty"


def _check(call: Call) -> str | None:
    """What a heartbeat must and must not say, whatever the group."""
    body = call.body
    if not body.group_id:
        return "GroupId can't be empty."
    if not body.member_id:
        return "MemberId can't be empty."
    if body.rack_id is not None and not body.rack_id.strip():
        return "RackId can't be empty."
    if body.member_epoch < LEAVES:
        return "MemberEpoch is invalid."
    if body.member_epoch == JOINS and not body.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return None


def _describe(group: ShareGroup, topics: Mapping[UUID, Topic]) -> Body:
    return {
        "group_id": group.name,
        "group_state": share_state(group),
        "group_epoch": group.epoch,
        "assignment_epoch": group.epoch,
        "assignor_name": ASSIGNOR,
        "members": [
            {
                "member_id": member.id,
                "rack_id": member.rack_id,
                "member_epoch": member.epoch,
                "client_id": member.client_id,
                "client_host": "",
                "subscribed_topic_names": sorted(member.topics),
                "assignment": {
                    "topic_partitions": [
                        entry | {"topic_name": topics[entry["topic_id"]].name}
                        for entry in by_topic(member.share)
                        if entry["topic_id"] in topics
                    ]
                },
            }
            for member in group.members.values()
        ],
    }
