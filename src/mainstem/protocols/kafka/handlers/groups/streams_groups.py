"""Streams groups (KIP-1071): members show that they live, and are told which tasks to work on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.errors import UnknownGroup
from mainstem.broker.groups.streams_groups import (
    JOINS,
    EndpointPartitions,
    StreamsBeat,
    StreamsGroup,
    StreamsHeartbeatReply,
    StreamsMember,
    Task,
    Tasks,
    UserEndpoint,
)
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.groups.assigned_groups import describe_all
from mainstem.protocols.kafka.handlers.groups.classic_groups import STREAMS_STATES, group_code
from mainstem.protocols.kafka.handlers.groups.streams_topology import read_topology, write_topology
from mainstem.protocols.kafka.mapping import written_host
from mainstem.wire.kafka import ApiKey, ErrorCode

LEAVES, PAUSES = -1, -2


class StreamsGroupHandlers:
    """StreamsGroupHeartbeat, StreamsGroupDescribe."""

    def __init__(self, broker: Broker) -> None:
        self._groups = broker.streams_groups
        self._shared = broker.share_groups

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.STREAMS_GROUP_HEARTBEAT: Served(self.heartbeat, 0, 0),
            ApiKey.STREAMS_GROUP_DESCRIBE: Served(self.describe, 0, 0),
        }

    async def heartbeat(self, call: Call) -> Body:
        """The member lives, may say what has changed, and is told what has."""
        body = call.body
        message = _refusal(body) or _mistake(body)
        if message is not None:
            return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": message}
        try:
            if body.group_id in self._shared:
                raise UnknownGroup(f"Group {body.group_id} is not a streams group.")
            told = await self._groups.beat(body.group_id, _read_beat(call))
        except MainstemError as error:
            return {"error_code": group_code(error), "error_message": str(error)}
        return _tell(told, self._groups.rules(body.group_id).heartbeat_interval_ms)

    def describe(self, call: Call) -> Body:
        """Groups with their topology, their members, what these work on, and what they should."""
        return describe_all(call, lambda name: _describe(self._groups.get(name)))


# What members say


def _refusal(body: Any) -> str | None:
    """What Kafka's brokers do not take yet; their words."""
    if body.instance_id is not None:
        return "Static membership is not yet supported."
    if body.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if body.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if body.warmup_tasks:
        return "WarmupTasks are not supported yet."
    if body.topology is not None and any(said.source_topic_regex for said in body.topology.subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _mistake(body: Any) -> str | None:
    """What a heartbeat must and must not say, whatever the group."""
    if not body.member_id:
        return "MemberId can't be empty."
    if not body.group_id:
        return "GroupId can't be empty."
    if body.rack_id is not None and not body.rack_id.strip():
        return "RackId can't be empty."
    if body.member_epoch == PAUSES:
        return "InstanceId can't be null."
    if body.member_epoch < PAUSES:
        return f"MemberEpoch is {body.member_epoch}, but must be greater than or equal to -2."
    said = (body.active_tasks, body.standby_tasks, body.warmup_tasks)
    if any(tasks is not None for tasks in said) and any(tasks is None for tasks in said):
        return "If one task-type is non-null, all must be non-null."
    if body.member_epoch != JOINS:
        return None if body.topology is None else "Topology can only be provided when (re-)joining."
    if body.rebalance_timeout_ms < 0:
        return "RebalanceTimeoutMs must be provided in first request."
    if body.active_tasks or body.standby_tasks:
        return "ActiveTasks and StandbyTasks must be empty when (re-)joining."
    if body.topology is None:
        return "Topology must be non-null when (re-)joining."
    return None


def _read_beat(call: Call) -> StreamsBeat:
    """Raises InvalidStreamsTopology."""
    body = call.body
    endpoint, tags = body.user_endpoint, body.client_tags
    return StreamsBeat(
        member_id=body.member_id,
        epoch=body.member_epoch,
        client_id=call.client_id,
        client_host=call.connection.host,
        endpoint_epoch=body.endpoint_information_epoch,
        rack_id=body.rack_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topology=None if body.topology is None else read_topology(body.topology),
        owned=None
        if body.active_tasks is None
        else Tasks(_read_tasks(body.active_tasks), _read_tasks(body.standby_tasks)),
        process_id=body.process_id,
        endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        client_tags=None if tags is None else {tag.key: tag.value for tag in tags},
        is_shutting_down=body.shutdown_application,
    )


def _read_tasks(said: Iterable[Any]) -> frozenset[Task]:
    return frozenset(Task(entry.subtopology_id, partition) for entry in said for partition in entry.partitions)


# What members are told


def _tell(told: StreamsHeartbeatReply, heartbeat_interval_ms: int) -> Body:
    answer: Body = {
        "member_id": told.member_id,
        "member_epoch": told.epoch,
        "heartbeat_interval_ms": heartbeat_interval_ms,
        "status": [{"status_code": status.code, "status_detail": status.detail} for status in told.statuses],
        "endpoint_information_epoch": told.endpoint_epoch,
    }
    if told.tasks is not None:
        answer |= _write_assignment(told.tasks)
    if told.endpoints is not None:
        answer["partitions_by_user_endpoint"] = [_write_endpoint(endpoint) for endpoint in told.endpoints]
    return answer


def _write_assignment(tasks: Tasks) -> Body:
    """Nobody is given tasks to warm up: Kafka's own assignor has none either."""
    return {
        "active_tasks": _write_tasks(tasks.active),
        "standby_tasks": _write_tasks(tasks.standby),
        "warmup_tasks": [],
    }


def _write_tasks(tasks: Iterable[Task]) -> list[Body]:
    grouped: dict[str, list[int]] = {}
    for task in sorted(tasks):
        grouped.setdefault(task.subtopology, []).append(task.partition)
    return [{"subtopology_id": id_, "partitions": partitions} for id_, partitions in grouped.items()]


def _write_endpoint(told: EndpointPartitions) -> Body:
    def topics(partitions: Mapping[str, tuple[int, ...]]) -> list[Body]:
        return [{"topic": name, "partitions": found} for name, found in partitions.items()]

    return {
        "user_endpoint": told.endpoint._asdict(),
        "active_partitions": topics(told.active),
        "standby_partitions": topics(told.standby),
    }


# What administrators are told


def _describe(group: StreamsGroup) -> Body:
    return {
        "group_id": group.name,
        "group_state": STREAMS_STATES[group.state],
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "topology": None if group.topology is None else write_topology(group.topology, group.plan),
        "members": [_describe_member(member, group) for member in group.members.values()],
    }


def _describe_member(member: StreamsMember, group: StreamsGroup) -> Body:
    return {
        "member_id": member.id,
        "member_epoch": member.epoch,
        "instance_id": None,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": written_host(member.client_host),
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "user_endpoint": None if member.endpoint is None else member.endpoint._asdict(),
        "client_tags": [{"key": key, "value": value} for key, value in member.client_tags.items()],
        "assignment": _write_assignment(member.tasks),
        "target_assignment": _write_assignment(group.target.get(member.id, Tasks())),
        "is_classic": False,
    }
