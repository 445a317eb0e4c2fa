"""Groups that an administrator moves to a time, an offset, or the end; members that read on by themselves hear of it."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.groups.groups import TopicPlace
from mainstem.broker.log import Edge, TimeAfter
from mainstem.protocols.rocketmq.codec.remoting.documents import MessageQueue, encode_offset_table
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler
from mainstem.protocols.rocketmq.handlers.remoting.membership import Membership
from mainstem.protocols.rocketmq.handlers.remoting.offsets import GroupOffsets
from mainstem.protocols.rocketmq.handlers.remoting.pulling import PullHandlers
from mainstem.protocols.rocketmq.mapping.names import check_group, find_topic, name_of
from mainstem.protocols.rocketmq.session.settings import RemotingSettings

TO_END = -1
"""As a time."""


class ResetHandlers:
    """Of all groups."""

    def __init__(
        self,
        broker: Broker,
        settings: RemotingSettings,
        membership: Membership,
        offsets: GroupOffsets,
        pulls: PullHandlers,
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._membership = membership
        self._offsets = offsets
        self._pulls = pulls

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {RequestCode.RESET_OFFSET: self.reset}

    async def reset(self, call: Call) -> None:
        """Move a group in all queues of a topic, or one; forward only by force. Raises RequestRefused, kinds of GroupError."""
        group, name = check_group(call.text("group")), call.text("topic")
        topic = find_topic(self._broker.topics, name)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic {name} does not exist")
        only, fixed = call.number("queueId", -1), call.number("offset", -1)
        if only >= len(topic.logs):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"topic {name} has no queue {only}")
        time_ms = call.number("timestamp", TO_END)
        may_skip = call.is_set("isForce") or fixed >= 0
        found: dict[TopicPlace, int] = {}
        for queue in range(len(topic.logs)) if only < 0 else (only,):
            place = TopicPlace(topic.id, queue)
            target = await self._target(topic, queue, fixed, time_ms)
            committed = await self._offsets.get(group, place)
            found[place] = target if may_skip or committed is None else min(target, committed)
        has_members = bool(self._membership.consumers(group))
        await self._offsets.reset(group, found, has_members=has_members)
        self._pulls.group_moved(group, [topic.logs[place.partition] for place in found])
        broker_name = self._settings.broker_name
        table = {MessageQueue(name_of(topic), broker_name, place.partition): offset for place, offset in found.items()}
        call.answer(body=encode_offset_table(table))

    async def _target(self, topic: Topic, queue: int, fixed: int, time_ms: int) -> int:
        log = topic.logs[queue]
        first, end = [(await self._broker.find(log, edge)).offset for edge in (Edge.START, Edge.STABLE)]
        if fixed >= 0:
            return min(max(fixed, first), end)
        if time_ms == TO_END:
            return end
        found = (await self._broker.find(log, TimeAfter(max(time_ms, 0)))).offset
        return found if found >= 0 else end
