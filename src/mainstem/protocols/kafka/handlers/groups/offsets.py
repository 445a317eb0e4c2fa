"""Offsets of groups: committed, fetched, deleted."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any
from uuid import UUID

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.groups.groups import CommittedOffset, Group, GroupState, TopicPlace
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.groups.classic_groups import group_code
from mainstem.protocols.kafka.handlers.groups.committed_offsets import CommittedOffsets
from mainstem.protocols.kafka.mapping import log_of
from mainstem.wire.errors import MalformedBytes
from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.kafka.consumer_protocol import PROTOCOL_TYPE, decode_subscription

GROUP_LISTS_FROM = 8
MEMBER_EPOCHS_FROM = 9
TOPIC_IDS_FROM = 10
NO_OFFSET = -1


class GroupOffsetHandlers:
    """OffsetCommit, OffsetFetch, OffsetDelete."""

    def __init__(self, broker: Broker) -> None:
        self._groups = broker.groups
        self._directed = broker.directed_groups
        self._streams = broker.streams_groups
        self._transactions = broker.transactions
        self._topics = broker.topics
        self._broker = broker

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.OFFSET_COMMIT: Served(self.offset_commit, 2, 10),
            ApiKey.OFFSET_FETCH: Served(self.offset_fetch, 1, 10),
            ApiKey.OFFSET_DELETE: Served(self.offset_delete, 0, 0),
        }

    def _topic(self, topic: Any, version: int) -> Topic | None:
        if version >= TOPIC_IDS_FROM:
            return self._topics.by_id.get(topic.topic_id)
        return self._topics.named().get(topic.name)

    # Commit

    async def offset_commit(self, call: Call) -> Body:
        """Answered when the offsets are in the log."""
        body = call.body
        offsets = CommittedOffsets(self._broker)
        refusal = ErrorCode.NONE
        try:
            self._groups.check_commit(
                body.group_id,
                body.member_id,
                body.group_instance_id,
                body.generation_id_or_member_epoch,
                self._places(body.topics, call.version),
            )
            if call.version < MEMBER_EPOCHS_FROM and self._has_epoch(body.group_id, body.member_id):
                refusal = ErrorCode.UNSUPPORTED_VERSION
        except MainstemError as error:
            refusal = group_code(error)
        topics = []
        for topic in body.topics:
            known = self._topic(topic, call.version)
            whole = refusal
            if not whole and known is None and call.version >= TOPIC_IDS_FROM:
                whole = ErrorCode.UNKNOWN_TOPIC_ID
            partitions = [
                {"partition_index": asked.partition_index, "error_code": whole or offsets.take(known, asked)}
                for asked in topic.partitions
            ]
            topics.append({"name": topic.name, "topic_id": topic.topic_id, "partitions": partitions})
        if offsets.taken:
            try:
                await self._groups.commit(body.group_id, offsets.taken)
            except MainstemError as error:
                _fail_all(topics, group_code(error))
        return {"topics": topics}

    def _places(self, topics: Iterable[Any], version: int) -> list[tuple[str, int]]:
        """Names and partitions; a topic that is not known has an empty name."""
        known = [(self._topic(topic, version), topic.partitions) for topic in topics]
        return [
            ("" if topic is None else topic.name, asked.partition_index)
            for topic, partitions in known
            for asked in partitions
        ]

    def _has_epoch(self, group: str, member_id: str) -> bool:
        """Whether this is a member of one of the newer protocols."""
        if self._streams.has_members(group):
            return True
        return self._directed.has_members(group) and self._directed.get(group).find(member_id).classic is None

    # Fetch

    def offset_fetch(self, call: Call) -> Body:
        """What was committed, durably: of some partitions, or of all."""
        body = call.body
        if call.version < GROUP_LISTS_FROM:
            return {"topics": self._fetch(body.group_id, body.topics, call)}
        return {"groups": [self._fetch_group(asked, call) for asked in body.groups]}

    def _fetch_group(self, asked: Any, call: Call) -> Body:
        if asked.member_id is not None and asked.member_epoch >= 0:
            try:
                self._groups.check_fetch(asked.group_id, asked.member_id, asked.member_epoch)
            except MainstemError as error:
                return {"group_id": asked.group_id, "error_code": group_code(error)}
        return {"group_id": asked.group_id, "topics": self._fetch(asked.group_id, asked.topics, call)}

    def _fetch(self, group: str, asked: list[Any] | None, call: Call) -> list[Body]:
        version = call.version
        committed = self._groups.offsets(group)
        # KIP-447: who must not repeat what another is about to commit, waits for that.
        unstable = self._transactions.pending(group) if call.body.require_stable else set()
        if asked is None:
            return self._fetch_all(committed, unstable, version)
        topics = []
        for topic in asked:
            known = self._topic(topic, version)
            # Without a topic of this name nothing can have been committed; an id that leads nowhere is an error.
            unknown = known is None and version >= TOPIC_IDS_FROM
            code = ErrorCode.UNKNOWN_TOPIC_ID if unknown else ErrorCode.NONE
            partitions = [
                _offset(index, None, code)
                if known is None
                else _of_place(TopicPlace(known.id, index), committed, unstable)
                for index in topic.partition_indexes
            ]
            answer: Body = {"name": topic.name, "partitions": partitions}
            if version >= TOPIC_IDS_FROM:
                answer["topic_id"] = topic.topic_id
            topics.append(answer)
        return topics

    def _fetch_all(
        self, committed: Mapping[TopicPlace, CommittedOffset], unstable: set[TopicPlace], version: int
    ) -> list[Body]:
        by_topic: dict[UUID, list[Body]] = {}
        for place in [*committed, *(unstable - committed.keys())]:
            by_topic.setdefault(place.topic, []).append(_of_place(place, committed, unstable))
        return [
            {"name": topic.name, "partitions": partitions}
            | ({"topic_id": topic.id} if version >= TOPIC_IDS_FROM else {})
            for topic_id, partitions in by_topic.items()
            if (topic := self._topics.by_id.get(topic_id)) is not None
        ]

    # Delete

    async def offset_delete(self, call: Call) -> Body:
        """Offsets of topics that no member subscribes to."""
        body = call.body
        try:
            group = self._groups.get(body.group_id)
            if group.members and group.protocol_type != PROTOCOL_TYPE:
                return {"error_code": ErrorCode.NON_EMPTY_GROUP}
            if body.group_id in self._directed:
                subscribed: Collection[str] = self._directed.get(body.group_id).subscribed
            elif body.group_id in self._streams:
                subscribed = self._streams.get(body.group_id).subscribed
            else:
                subscribed = _subscribed(group)
            places: list[TopicPlace] = []
            topics = []
            for topic in body.topics:
                known = self._topics.named().get(topic.name)
                partitions = []
                for asked in topic.partitions:
                    code = ErrorCode.NONE
                    if topic.name in subscribed:
                        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                    elif known is None or log_of(known, asked.partition_index) is None:
                        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    else:
                        places.append(TopicPlace(known.id, asked.partition_index))
                    partitions.append({"partition_index": asked.partition_index, "error_code": code})
                topics.append({"name": topic.name, "partitions": partitions})
            await self._groups.forget_offsets(body.group_id, places)
        except MainstemError as error:
            return {"error_code": group_code(error)}
        return {"topics": topics}


def _subscribed(group: Group) -> set[str]:
    """The topics that members have asked for, as far as they can be understood."""
    topics: set[str] = set()
    if group.state is GroupState.EMPTY:
        return topics
    for member in group.members.values():
        for _, metadata in member.protocols:
            try:
                topics.update(decode_subscription(metadata)[1].topics)
            except MalformedBytes:
                continue  # another kind of member: what it says is not ours to read
    return topics


def _of_place(
    place: TopicPlace, committed: Mapping[TopicPlace, CommittedOffset], unstable: Container[TopicPlace]
) -> Body:
    if place in unstable:
        return _offset(place.partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return _offset(place.partition, committed.get(place))


def _offset(index: int, committed: CommittedOffset | None, code: int = ErrorCode.NONE) -> Body:
    if committed is None:
        return {"partition_index": index, "committed_offset": NO_OFFSET, "metadata": "", "error_code": code}
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.note,
        "error_code": code,
    }


def _fail_all(topics: Iterable[Body], code: int) -> None:
    for topic in topics:
        for partition in topic["partitions"]:
            partition["error_code"] = partition["error_code"] or code
