"""What groups that the broker assigns have in common: how members are told, and how groups are described."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.errors import UnknownGroup
from mainstem.broker.groups.directed_groups import HeartbeatReply
from mainstem.broker.groups.group_configs import BeatRules
from mainstem.broker.groups.groups import TopicPlace
from mainstem.protocols.kafka.handlers.calls import Body, Call
from mainstem.protocols.kafka.mapping import GROUP_OPERATIONS, NOT_ASKED
from mainstem.wire.kafka import ErrorCode


def tell(reply: HeartbeatReply, rules: BeatRules) -> Body:
    """The answer to a heartbeat."""
    return {
        "member_id": reply.member_id,
        "member_epoch": reply.epoch,
        "heartbeat_interval_ms": rules.heartbeat_interval_ms,
        "assignment": None if reply.share is None else {"topic_partitions": by_topic(reply.share)},
    }


def describe_all(call: Call, describe: Callable[[str], Body]) -> Body:
    """The groups that are asked for, each described or not found."""
    operations = GROUP_OPERATIONS if call.body.include_authorized_operations else NOT_ASKED
    described: list[Body] = []
    for name in call.body.group_ids:
        try:
            described.append(describe(name) | {"authorized_operations": operations})
        except UnknownGroup:
            code = ErrorCode.GROUP_ID_NOT_FOUND
            described.append({"error_code": code, "error_message": f"Group {name} not found.", "group_id": name})
    return {"groups": described}


def by_topic(places: Iterable[TopicPlace]) -> list[Body]:
    """Partitions by topic, both in order."""
    grouped: dict[UUID, list[int]] = {}
    for place in sorted(places):
        grouped.setdefault(place.topic, []).append(place.partition)
    return [{"topic_id": topic, "partitions": partitions} for topic, partitions in grouped.items()]


def by_named_topic(places: Iterable[TopicPlace], topics: Mapping[UUID, Topic]) -> Body:
    """The same with names, for topics that are still there."""
    known = [entry for entry in by_topic(places) if entry["topic_id"] in topics]
    return {"topic_partitions": [entry | {"topic_name": topics[entry["topic_id"]].name} for entry in known]}
