"""Groups, by the classic protocol: members join, one of them assigns, all of them show that they live."""

from __future__ import annotations

from typing import TypeVar

from mainstem.broker.broker import Broker
from mainstem.broker.errors import InconsistentProtocol, MemberIdRequired, UnknownGroup
from mainstem.broker.groups.directed_groups import DirectedState
from mainstem.broker.groups.groups import Assigned, Group, GroupState, Joined, JoinWish
from mainstem.broker.groups.share_groups import ShareGroup
from mainstem.broker.groups.streams_groups import StreamsState
from mainstem.broker.log import Answer
from mainstem.model.errors import DiskError, MainstemError, OwnershipLost, UnavailableError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.mapping import GROUP_OPERATIONS, NOT_ASKED, written_host
from mainstem.protocols.kafka.session.machine import Reply
from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.kafka.consumer_protocol import PROTOCOL_TYPE

T = TypeVar("T")

MEMBER_ID_REQUIRED_FROM = 4
NULL_PROTOCOL_FROM = 7
SKIP_ASSIGNMENT_FROM = 9
LEAVE_LISTS_FROM = 3
NOT_FOUND_FROM = 6
CLASSIC, CONSUMER, SHARE, STREAMS = "Classic", "Consumer", "Share", "Streams"
STATES = {
    GroupState.EMPTY: "Empty",
    GroupState.JOINING: "PreparingRebalance",
    GroupState.ASSIGNING: "CompletingRebalance",
    GroupState.STABLE: "Stable",
}
DIRECTED_STATES = {
    DirectedState.EMPTY: "Empty",
    DirectedState.RECONCILING: "Reconciling",
    DirectedState.STABLE: "Stable",
}
STREAMS_STATES = {
    StreamsState.EMPTY: "Empty",
    StreamsState.NOT_READY: "NotReady",
    StreamsState.ASSIGNING: "Assigning",
    StreamsState.RECONCILING: "Reconciling",
    StreamsState.STABLE: "Stable",
}
DEAD = "Dead"
SHARE_PROTOCOL_TYPE, STREAMS_PROTOCOL_TYPE = "share", "streams"


def share_state(group: ShareGroup) -> str:
    """As Kafka calls it."""
    return "Stable" if group.members else "Empty"


def group_code(error: MainstemError) -> ErrorCode:
    """A coordinator that cannot store says so in its own words: clients look for it anew and retry."""
    if isinstance(error, OwnershipLost):
        return ErrorCode.NOT_COORDINATOR
    if isinstance(error, UnavailableError | DiskError):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code_of(error)


async def wait_unless_drained(answer: Answer[T], reply: Reply) -> T:
    """What others bring about; a broker that goes does not wait for it."""
    waiting: Answer[T] = Answer()

    def finish(done: Answer[T]) -> None:
        if waiting.done:
            return
        if done.error is not None:
            waiting.fail(done.error)
        else:
            waiting.resolve(done.result())

    def hurry() -> None:
        if not waiting.done:
            waiting.fail(UnavailableError("the broker is going"))

    answer.on_done(finish)
    reply.on_drain(hurry)
    return await waiting


class GroupHandlers:
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups, DeleteGroups."""

    def __init__(self, broker: Broker) -> None:
        self._groups = broker.groups
        self._directed = broker.directed_groups
        self._shared = broker.share_groups
        self._streams = broker.streams_groups

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.JOIN_GROUP: Served(self.join_group, 0, 9),
            ApiKey.SYNC_GROUP: Served(self.sync_group, 0, 5),
            ApiKey.HEARTBEAT: Served(self.heartbeat, 0, 4),
            ApiKey.LEAVE_GROUP: Served(self.leave_group, 0, 5),
            ApiKey.LIST_GROUPS: Served(self.list_groups, 0, 5),
            ApiKey.DESCRIBE_GROUPS: Served(self.describe_groups, 0, 6),
            ApiKey.DELETE_GROUPS: Served(self.delete_groups, 0, 2),
        }

    # Members

    async def join_group(self, call: Call) -> Body:
        """Answered when everybody has joined, or had the time to."""
        body = call.body
        wish = JoinWish(
            member_id=body.member_id,
            instance_id=body.group_instance_id,
            client_id=call.client_id,
            client_host=call.connection.host,
            session_timeout_ms=body.session_timeout_ms,
            rebalance_timeout_ms=body.rebalance_timeout_ms if call.version > 0 else body.session_timeout_ms,
            protocol_type=body.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in body.protocols),
            id_required=call.version >= MEMBER_ID_REQUIRED_FROM,
            skips_assignment=call.version >= SKIP_ASSIGNMENT_FROM,
        )
        try:
            if body.group_id in self._shared:
                raise InconsistentProtocol(f"{body.group_id} is a share group")
            joined: Joined = await wait_unless_drained(await self._groups.join(body.group_id, wish), call.reply)
        except MainstemError as error:
            return {
                "error_code": group_code(error),
                "member_id": error.member_id if isinstance(error, MemberIdRequired) else body.member_id,
                "protocol_name": None if call.version >= NULL_PROTOCOL_FROM else "",
            }
        return {
            "generation_id": joined.generation,
            "protocol_type": joined.protocol_type,
            "protocol_name": joined.protocol,
            "leader": joined.leader,
            "skip_assignment": joined.skip_assignment,
            "member_id": joined.member_id,
            "members": [
                {"member_id": member_id, "group_instance_id": instance_id, "metadata": metadata}
                for member_id, instance_id, metadata in joined.members
            ],
        }

    async def sync_group(self, call: Call) -> Body:
        """Answered when the leader's assignment is in the log."""
        body = call.body
        try:
            answer = await self._groups.sync(
                body.group_id,
                body.member_id,
                body.group_instance_id,
                body.generation_id,
                (body.protocol_type, body.protocol_name),
                {assignment.member_id: assignment.assignment for assignment in body.assignments},
            )
            assigned: Assigned = await wait_unless_drained(answer, call.reply)
        except MainstemError as error:
            return {"error_code": group_code(error)}
        return {
            "protocol_type": assigned.protocol_type,
            "protocol_name": assigned.protocol,
            "assignment": assigned.assignment,
        }

    def heartbeat(self, call: Call) -> Body:
        """The member lives; it may be told to join again."""
        body = call.body
        try:
            self._groups.heartbeat(body.group_id, body.member_id, body.group_instance_id, body.generation_id)
        except MainstemError as error:
            return {"error_code": group_code(error)}
        return {}

    async def leave_group(self, call: Call) -> Body:
        """Members go, each by itself."""
        body = call.body
        if call.version < LEAVE_LISTS_FROM:
            return {"error_code": await self._leave(body.group_id, body.member_id, None)}
        return {
            "members": [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.group_instance_id,
                    "error_code": await self._leave(body.group_id, member.member_id, member.group_instance_id),
                }
                for member in body.members
            ]
        }

    async def _leave(self, group: str, member_id: str, instance_id: str | None) -> ErrorCode:
        try:
            await self._groups.leave(group, member_id, instance_id)
        except MainstemError as error:
            return group_code(error)
        return ErrorCode.NONE

    # Administration

    def list_groups(self, call: Call) -> Body:
        """All groups, or those in certain states."""
        states = {state.lower().replace("_", "") for state in call.body.states_filter}
        types = {kind.lower() for kind in call.body.types_filter}
        listed = []
        for name in [*self._groups.names(), *self._shared.names()]:
            kind, protocol_type, state = self._summary(name)
            if (not states or state.lower() in states) and (not types or kind.lower() in types):
                listed.append(
                    {"group_id": name, "protocol_type": protocol_type, "group_state": state, "group_type": kind}
                )
        return {"groups": listed}

    def _summary(self, name: str) -> tuple[str, str, str]:
        """Kind, protocol type and state."""
        if name in self._shared:
            return SHARE, SHARE_PROTOCOL_TYPE, share_state(self._shared.get(name))
        if name in self._streams:
            return STREAMS, STREAMS_PROTOCOL_TYPE, STREAMS_STATES[self._streams.get(name).state]
        if name in self._directed:
            return CONSUMER, PROTOCOL_TYPE, DIRECTED_STATES[self._directed.get(name).state]
        group = self._groups.get(name)
        return CLASSIC, group.protocol_type or "", STATES[group.state]

    def describe_groups(self, call: Call) -> Body:
        """Groups with their members."""
        operations = GROUP_OPERATIONS if call.body.include_authorized_operations else NOT_ASKED
        described = []
        for name in call.body.groups:
            try:
                if name in self._directed or name in self._shared or name in self._streams:
                    raise UnknownGroup(f"Group {name} is not a classic group.")
                described.append(_describe(self._groups.get(name)) | {"authorized_operations": operations})
            except UnknownGroup:
                code = ErrorCode.GROUP_ID_NOT_FOUND if call.version >= NOT_FOUND_FROM else ErrorCode.NONE
                message = f"Group {name} not found." if code else None
                described.append({"error_code": code, "error_message": message, "group_id": name, "group_state": DEAD})
        return {"groups": described}

    async def delete_groups(self, call: Call) -> Body:
        """Groups without members, with their offsets."""
        results = []
        for name in call.body.groups_names:
            code = ErrorCode.NONE
            try:
                await (self._shared if name in self._shared else self._groups).delete(name)
            except MainstemError as error:
                code = group_code(error)
            results.append({"group_id": name, "error_code": code})
        return {"results": results}


def _describe(group: Group) -> Body:
    is_stable = group.state is GroupState.STABLE
    protocol = group.protocol or ""
    return {
        "group_id": group.name,
        "group_state": STATES[group.state],
        "protocol_type": group.protocol_type or "",
        "protocol_data": protocol if is_stable else "",
        "members": [
            {
                "member_id": member.id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": written_host(member.client_host),
                "member_metadata": member.metadata(protocol) if is_stable else b"",
                "member_assignment": member.assignment if is_stable else b"",
            }
            for member in group.members.values()
        ],
    }
