"""Where share groups are: describe, move, forget."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.log import Edge
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.groups.classic_groups import group_code
from mainstem.protocols.kafka.mapping import log_of
from mainstem.wire.kafka import ApiKey, ErrorCode

NOWHERE = -1


class ShareOffsetHandlers:
    """DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets."""

    def __init__(self, broker: Broker) -> None:
        self._groups = broker.share_groups
        self._term = broker.term
        self._subscriptions = broker.share_groups.subscriptions
        self._topics = broker.topics.named()
        self._find = broker.find

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Served(self.describe, 0, 1),
            ApiKey.ALTER_SHARE_GROUP_OFFSETS: Served(self.alter, 0, 0),
            ApiKey.DELETE_SHARE_GROUP_OFFSETS: Served(self.delete, 0, 0),
        }

    async def describe(self, call: Call) -> Body:
        """Floors, and how much is left to do above them."""
        return {"groups": [await self._describe(group) for group in call.body.groups]}

    async def _describe(self, asked: Any) -> Body:
        name = asked.group_id
        try:
            self._groups.get(name)
        except MainstemError as error:
            return {"group_id": name, "topics": [], "error_code": group_code(error), "error_message": str(error)}
        topics = []
        for topic_name, partitions in self._asked(name, asked.topics):
            topic = self._topics.get(topic_name)
            described = [await self._describe_partition(name, topic, index) for index in partitions]
            identity = {} if topic is None else {"topic_id": topic.id}
            topics.append({"topic_name": topic_name, "partitions": described} | identity)
        return {"group_id": name, "topics": topics}

    def _asked(self, name: str, topics: Iterable[Any] | None) -> list[tuple[str, list[int]]]:
        if topics is not None:
            return [(topic.topic_name, list(topic.partitions)) for topic in topics]
        known = self._subscriptions.cursors(name)
        found = ((t.name, [i for i, log in enumerate(t.logs) if log in known]) for t in self._topics.values())
        return [(topic, partitions) for topic, partitions in found if partitions]

    async def _describe_partition(self, name: str, topic: Topic | None, index: int) -> Body:
        log = None if topic is None else log_of(topic, index)
        answer: Body = {"partition_index": index, "start_offset": NOWHERE, "leader_epoch": self._term}
        if log is None:
            return answer | {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        cursor = self._subscriptions.cursors(name).get(log)
        if cursor is None:
            return answer
        try:
            end = (await self._find(log, Edge.END)).offset
        except MainstemError as error:
            return answer | {"error_code": code_of(error), "error_message": str(error)}
        left = end - cursor.floor - cursor.settled_count
        return answer | {"start_offset": cursor.floor, "lag": max(left, 0)}

    async def alter(self, call: Call) -> Body:
        """Begin anew elsewhere; only without members."""
        body = call.body
        try:
            self._groups.check_empty(body.group_id)
        except MainstemError as error:
            return {"error_code": group_code(error), "error_message": str(error), "responses": []}
        responses = []
        for asked in body.topics:
            topic = self._topics.get(asked.topic_name)
            partitions = []
            for partition in asked.partitions:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                log = None if topic is None else log_of(topic, partition.partition_index)
                if log is not None:
                    code = await self._move(body.group_id, log, partition.start_offset)
                partitions.append({"partition_index": partition.partition_index, "error_code": code})
            identity = {} if topic is None else {"topic_id": topic.id}
            responses.append({"topic_name": asked.topic_name, "partitions": partitions} | identity)
        return {"responses": responses}

    async def _move(self, name: str, log: int, offset: int) -> ErrorCode:
        if offset < 0:
            return ErrorCode.INVALID_REQUEST
        try:
            await self._subscriptions.move(name, {log: offset})
        except MainstemError as error:
            return code_of(error)
        return ErrorCode.NONE

    async def delete(self, call: Call) -> Body:
        """Forget where the group is in whole topics; only without members."""
        body = call.body
        try:
            self._groups.check_empty(body.group_id)
        except MainstemError as error:
            return {"error_code": group_code(error), "error_message": str(error), "responses": []}
        responses: list[Body] = []
        for asked in body.topics:
            topic = self._topics.get(asked.topic_name)
            if topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                responses.append({"topic_name": asked.topic_name, "error_code": code})
                continue
            answer: Body = {"topic_name": asked.topic_name, "topic_id": topic.id}
            try:
                await self._subscriptions.forget(body.group_id, topic.logs)
            except MainstemError as error:
                answer |= {"error_code": group_code(error), "error_message": str(error)}
            responses.append(answer)
        return {"responses": responses}
