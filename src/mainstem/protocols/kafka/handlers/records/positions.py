"""Positions in partitions: where they begin and end, what was written when, and cutting off their beginning."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.log import Edge, Place, TimeAfter
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.mapping import log_of
from mainstem.wire.kafka import ApiKey, ErrorCode

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
"""Instead of a time (KIP-734, KIP-405, KIP-1023)."""
NEWEST_FROM, EARLIEST_LOCAL_FROM, LATEST_TIERED_FROM, EARLIEST_PENDING_FROM = 7, 8, 9, 11
READ_COMMITTED = 1
TO_END = -1


class PositionHandlers:
    """ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._topics = broker.topics.named()

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.LIST_OFFSETS: Served(self.list_offsets, 1, 11),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: Served(self.offset_for_leader_epoch, 2, 4),
            ApiKey.DELETE_RECORDS: Served(self.delete_records, 0, 2),
        }

    def _log(self, topic: str, partition: int) -> int | None:
        found = self._topics.get(topic)
        return None if found is None else log_of(found, partition)

    async def list_offsets(self, call: Call) -> Body:
        """Offsets by time, or by one of the words that stand for a time."""
        committed_only = call.body.isolation_level == READ_COMMITTED
        topics = []
        for topic in call.body.topics:
            asked = Counter(partition.partition_index for partition in topic.partitions)
            partitions = []
            for partition in topic.partitions:
                if asked[partition.partition_index] > 1:
                    partitions.append(_position(partition.partition_index, ErrorCode.INVALID_REQUEST))
                else:
                    partitions.append(await self._find(topic.name, partition, call.version, committed_only))
            topics.append({"name": topic.name, "partitions": partitions})
        return {"topics": topics}

    async def _find(self, topic: str, partition: Any, version: int, committed_only: bool) -> Body:
        index = partition.partition_index
        log = self._log(topic, index)
        if log is None:
            return _position(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if (wrong := self._wrong_epoch(partition.current_leader_epoch)) is not None:
            return _position(index, wrong)
        timestamp = partition.timestamp
        place: Place
        if timestamp == LATEST:
            place = Edge.STABLE if committed_only else Edge.END
        elif timestamp == EARLIEST or (timestamp == EARLIEST_LOCAL and version >= EARLIEST_LOCAL_FROM):
            place = Edge.START
        elif timestamp == NEWEST and version >= NEWEST_FROM:
            place = Edge.NEWEST
        elif (timestamp == LATEST_TIERED and version >= LATEST_TIERED_FROM) or (
            timestamp == EARLIEST_PENDING and version >= EARLIEST_PENDING_FROM
        ):
            return _position(index, ErrorCode.NONE)  # no record is anywhere else, or on its way there
        elif timestamp < 0:
            return _position(index, ErrorCode.UNSUPPORTED_VERSION)
        else:
            place = TimeAfter(timestamp)
        try:
            found = await self._broker.find(log, place)
            if committed_only and found.offset >= 0 and isinstance(place, TimeAfter):
                stable = await self._broker.find(log, Edge.STABLE)
                if found.offset >= stable.offset:
                    return _position(index, ErrorCode.NONE)
        except MainstemError as error:
            return _position(index, code_of(error))
        epoch = self._broker.term if found.offset >= 0 else -1
        return _position(index, ErrorCode.NONE, found.offset, found.timestamp_ms, epoch)

    async def offset_for_leader_epoch(self, call: Call) -> Body:
        """Where an epoch ended: at the end of the log, because what one owner has shown, every later one has too."""
        topics = []
        for topic in call.body.topics:
            partitions = []
            for partition in topic.partitions:
                log = self._log(topic.topic, partition.partition)
                answer: Body = {"partition": partition.partition, "error_code": ErrorCode.NONE}
                if log is None:
                    answer["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif (wrong := self._wrong_epoch(partition.current_leader_epoch)) is not None:
                    answer["error_code"] = wrong
                elif 0 <= partition.leader_epoch <= self._broker.term:
                    try:
                        end = await self._broker.find(log, Edge.END)
                        answer |= {"leader_epoch": partition.leader_epoch, "end_offset": end.offset}
                    except MainstemError as error:
                        answer["error_code"] = code_of(error)
                partitions.append(answer)
            topics.append({"topic": topic.topic, "partitions": partitions})
        return {"topics": topics}

    def _wrong_epoch(self, epoch: int) -> ErrorCode | None:
        """What is wrong with the epoch in which a client believes us to lead; below 0 it believes nothing."""
        if epoch > self._broker.term:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.FENCED_LEADER_EPOCH if 0 <= epoch < self._broker.term else None

    async def delete_records(self, call: Call) -> Body:
        """Move the beginning of partitions."""
        topics = []
        for topic in call.body.topics:
            partitions = [await self._delete(topic.name, p.partition_index, p.offset) for p in topic.partitions]
            topics.append({"name": topic.name, "partitions": partitions})
        return {"topics": topics}

    async def _delete(self, topic: str, index: int, before: int) -> Body:
        def answer(code: int, low: int = -1) -> Body:
            return {"partition_index": index, "low_watermark": low, "error_code": code}

        log = self._log(topic, index)
        if log is None:
            return answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if "delete" not in self._topics[topic].effective.get("cleanup.policy", "delete"):
            return answer(ErrorCode.POLICY_VIOLATION)
        try:
            end = (await self._broker.find(log, Edge.END)).offset
            if before == TO_END:
                before = end
            if not 0 <= before <= end:
                return answer(ErrorCode.OFFSET_OUT_OF_RANGE)
            return answer(ErrorCode.NONE, await self._broker.trim(log, before))
        except MainstemError as error:
            return answer(code_of(error))


def _position(index: int, code: int, offset: int = -1, timestamp: int = -1, epoch: int = -1) -> Body:
    return {
        "partition_index": index,
        "error_code": code,
        "offset": offset,
        "timestamp": timestamp,
        "leader_epoch": epoch,
    }
