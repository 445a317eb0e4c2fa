"""Offsets as clients commit them, with a transaction or without."""

from __future__ import annotations

from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.groups.groups import CommittedOffset, TopicPlace
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.mapping import log_of
from mainstem.wire.kafka import ErrorCode


class CommittedOffsets:
    """What one request commits."""

    def __init__(self, broker: Broker) -> None:
        self._groups = broker.groups
        self._now_ms = broker.clock.now_ms()
        self.taken: dict[TopicPlace, CommittedOffset] = {}

    def take(self, topic: Topic | None, asked: Any) -> ErrorCode:
        """Note the offset of one partition; answers the code if it cannot be."""
        if topic is None or log_of(topic, asked.partition_index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        note = asked.committed_metadata or ""
        try:
            self._groups.check_note(note)
        except MainstemError as error:
            return code_of(error)
        place = TopicPlace(topic.id, asked.partition_index)
        self.taken[place] = CommittedOffset(asked.committed_offset, asked.committed_leader_epoch, note, self._now_ms)
        return ErrorCode.NONE
