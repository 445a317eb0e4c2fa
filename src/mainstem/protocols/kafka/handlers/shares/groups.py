"""Share groups (KIP-932): members show that they live and are told which partitions to take records from."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.groups.directed_groups import JOINS
from mainstem.broker.groups.share_groups import Beat, ShareGroup
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.groups.assigned_groups import by_named_topic, describe_all, tell
from mainstem.protocols.kafka.handlers.groups.classic_groups import group_code, share_state
from mainstem.protocols.kafka.mapping import written_host
from mainstem.wire.kafka import ApiKey, ErrorCode

LEAVES = -1
ASSIGNOR = "simple"


class ShareGroupHandlers:
    """ShareGroupHeartbeat, ShareGroupDescribe."""

    def __init__(self, broker: Broker) -> None:
        self._groups = broker.share_groups
        self._topics = broker.topics.by_id

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
        beat = Beat(
            member_id=body.member_id,
            epoch=body.member_epoch,
            client_id=call.client_id,
            client_host=call.connection.host,
            topics=None if body.subscribed_topic_names is None else frozenset(body.subscribed_topic_names),
            rack_id=body.rack_id,
        )
        try:
            told = await self._groups.beat(body.group_id, beat)
        except MainstemError as error:
            return {"error_code": group_code(error), "error_message": str(error)}
        return tell(told, self._groups.rules(body.group_id))

    def describe(self, call: Call) -> Body:
        """Groups with their members, and what these take records from."""
        return describe_all(call, lambda name: _describe(self._groups.get(name), self._topics))


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
                "client_host": written_host(member.client_host),
                "subscribed_topic_names": sorted(member.topics),
                "assignment": by_named_topic(member.share, topics),
            }
            for member in group.members.values()
        ],
    }
