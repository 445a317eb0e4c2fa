"""How far groups have come, and where queues begin and end.

Offsets of a group are the same for all protocols. Those that come with pulls, or one-way, are gathered: the newest of each
queue is committed a moment later.
"""

from __future__ import annotations

import logging
from typing import TypeAlias

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.groups.groups import CommittedOffset, TopicPlace
from mainstem.broker.log import Edge, Place, TimeAfter
from mainstem.model.errors import MainstemError
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler, Spawn
from mainstem.protocols.rocketmq.mapping.names import check_group, find_topic

log = logging.getLogger(__name__)

GATHER_S = 0.05
RESET_S = 60.0
"""For so long a member that reads on by itself may take to hear that its group was moved."""
NO_EPOCH = -1
YOUNG_BYTES_MAX = 64 << 20
"""A queue that was never trimmed and holds no more than this is read from its beginning by a new group, as RocketMQ reads a
queue that is still in memory. A new group of another queue begins where its client says."""

Noted: TypeAlias = dict[TopicPlace, int]


class GroupOffsets:
    """Offsets on their way to the log."""

    def __init__(self, broker: Broker, spawn: Spawn) -> None:
        self._groups = broker.groups
        self._clock = broker.clock
        self._spawn = spawn
        self._noted: dict[str, Noted] = {}
        self._is_due = False
        self._resets: dict[tuple[str, TopicPlace], tuple[int, float]] = {}
        """Where groups were moved to, and until when that is told. Until a member has heard of it, its commits do not count."""

    def is_moving(self, group: str, place: TopicPlace) -> bool:
        """Whether the group was moved there, and no member has heard of it yet."""
        found = self._resets.get((group, place))
        if found is not None and found[1] < self._clock.monotonic():
            del self._resets[group, place]
            return False
        return found is not None

    def take_reset(self, group: str, place: TopicPlace) -> int | None:
        """Where a member that asks for more is to go on, told once."""
        return self._resets.pop((group, place))[0] if self.is_moving(group, place) else None

    async def reset(self, group: str, offsets: Noted, *, has_members: bool) -> None:
        """Move a group. Durable when answered. Raises kinds of GroupError."""
        noted = self._noted.get(group, {})
        for place in offsets:
            noted.pop(place, None)
        await self.commit(group, offsets)
        if has_members:
            until = self._clock.monotonic() + RESET_S
            self._resets |= {(group, place): (offset, until) for place, offset in offsets.items()}

    def note(self, group: str, topic: Topic, queue: int, offset: int) -> None:
        """Commit it soon, unless it is known."""
        place = TopicPlace(topic.id, queue)
        if self._resets and self.is_moving(group, place):
            return
        known = self._groups.offsets(group).get(place)
        if known is not None and known.offset == offset and group not in self._noted:
            return
        self._noted.setdefault(group, {})[place] = offset
        if not self._is_due:
            self._is_due = True
            self._clock.call_later(GATHER_S, self._flush)

    def _flush(self) -> None:
        self._is_due = False
        noted, self._noted = self._noted, {}
        for group, offsets in noted.items():
            self._spawn(self._commit_noted(group, offsets))

    async def _commit_noted(self, group: str, offsets: Noted) -> None:
        try:
            await self.commit(group, offsets)
        except MainstemError as error:
            log.warning("offsets of group %s were not committed: %s", group, error)

    async def commit(self, group: str, offsets: Noted) -> None:
        """Durable when answered. Raises kinds of GroupError: a group with members of another protocol is theirs."""
        self._groups.check_commit(group, "", None, -1)
        now_ms = self._clock.now_ms()
        found = {place: CommittedOffset(offset, NO_EPOCH, "", now_ms) for place, offset in offsets.items()}
        await self._groups.commit(group, found)

    async def get(self, group: str, place: TopicPlace) -> int | None:
        """What was committed, or is about to be."""
        if group in self._noted:
            await self.commit(group, self._noted.pop(group))
        found = self._groups.offsets(group).get(place)
        return None if found is None else found.offset


class OffsetHandlers:
    """Questions for offsets, and commits of them."""

    def __init__(self, broker: Broker, offsets: GroupOffsets) -> None:
        self._broker = broker
        self._topics = broker.topics
        self._offsets = offsets

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
            RequestCode.GET_MAX_OFFSET: self._edge(Edge.STABLE),
            RequestCode.GET_MIN_OFFSET: self._edge(Edge.START),
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_time,
        }

    def _find(self, call: Call) -> tuple[Topic, int]:
        name, queue = call.text("topic"), call.number("queueId")
        topic = find_topic(self._topics, name)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic {name} does not exist")
        if not 0 <= queue < len(topic.logs):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"topic {name} has no queue {queue}")
        return topic, queue

    async def query(self, call: Call) -> None:
        """What a group committed; a group that did not begins at 0 where the queue is young."""
        topic, queue = self._find(call)
        group = check_group(call.text("consumerGroup"))
        found = await self._offsets.get(group, TopicPlace(topic.id, queue))
        if found is None:
            first = (await self._broker.find(topic.logs[queue], Edge.START)).offset
            facts = await self._broker.read(topic.logs[queue], first, 0)
            if first > 0 or facts.stored_bytes > YOUNG_BYTES_MAX or call.fields.get("setZeroIfNotFound") == "false":
                raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"group {group} has committed nothing here")
            found = 0
        call.answer({"offset": found})

    async def update(self, call: Call) -> None:
        """Commit an offset; without an answer it is gathered with others."""
        group, offset = check_group(call.text("consumerGroup")), call.number("commitOffset")
        topic, queue = self._find(call)
        if offset < 0:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{offset} is no offset")
        if call.command.is_one_way:
            self._offsets.note(group, topic, queue, offset)
            return
        place = TopicPlace(topic.id, queue)
        if not self._offsets.is_moving(group, place):
            await self._offsets.commit(group, {place: offset})
        call.answer()

    async def search(self, call: Call) -> None:
        """The first message of a time, or the end."""
        topic, queue = self._find(call)
        log_number = topic.logs[queue]
        places: list[Place] = [TimeAfter(max(call.number("timestamp"), 0)), Edge.STABLE]
        for place in places:
            found = await self._broker.find(log_number, place)
            if found.offset >= 0:
                call.answer({"offset": found.offset})
                return

    def _edge(self, edge: Edge) -> Handler:
        async def answer(call: Call) -> None:
            topic, queue = self._find(call)
            call.answer({"offset": (await self._broker.find(topic.logs[queue], edge)).offset})

        return answer

    async def earliest_time(self, call: Call) -> None:
        """When the first message came; -1: there is none."""
        topic, queue = self._find(call)
        found = await self._broker.find(topic.logs[queue], TimeAfter(0))
        call.answer({"timestamp": found.timestamp_ms if found.offset >= 0 else -1})
