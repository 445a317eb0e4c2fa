"""Fetch sessions (KIP-227): a consumer of many partitions says only what has changed, and is told only that.

A session belongs to its connection and ends with it. That is allowed, because a broker may forget any session at any time:
the client then begins another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TypeAlias

from mainstem.protocols.kafka.codec.fetch import FetchRequest, PartitionAnswer, PartitionFetch
from mainstem.wire.kafka import ErrorCode

NO_SESSION = 0
BEGIN, END = 0, -1
"""Epochs with a meaning of their own."""
EPOCH_LAST = 2**31 - 1
PARTITIONS_MAX = 100_000
"""Of one session: who goes beyond it is served without."""

TopicName: TypeAlias = "str | bytes"
Wanted: TypeAlias = list[tuple[TopicName, list[PartitionFetch]]]


class SessionRefused(Exception):
    """The session is not known, or not where the client believes it to be."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchSession:
    """What one consumer reads, and what it was told of each partition."""

    def __init__(self, session_id: int, wanted: Wanted) -> None:
        self.id = session_id
        self._epoch = 0
        self._partitions: dict[tuple[TopicName, int], PartitionFetch] = {}
        self._sent: dict[tuple[TopicName, int], tuple[int, int]] = {}
        self._add(wanted)

    def advance(self, request: FetchRequest) -> None:
        """Take in what has changed. Raises SessionRefused."""
        expected = self._epoch + 1 if self._epoch < EPOCH_LAST else 1
        if request.session_epoch != expected:
            raise SessionRefused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        # Names before version 13, ids from then on: both in one session would be one partition twice.
        known = next(iter(self._partitions), None)
        if known is not None and any(type(name) is not type(known[0]) for name, _ in request.topics):
            raise SessionRefused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._epoch = expected
        for name, partitions in request.forgotten:
            for partition in partitions:
                self._partitions.pop((name, partition), None)
                self._sent.pop((name, partition), None)
        self._add(request.topics)
        if len(self._partitions) > PARTITIONS_MAX:
            raise SessionRefused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _add(self, wanted: Wanted) -> None:
        for name, partitions in wanted:
            for partition in partitions:
                self._partitions[name, partition.partition] = partition

    def wanted(self) -> Wanted:
        """All that is read, in the order in which it is served."""
        groups = itertools.groupby(self._partitions.items(), key=lambda item: item[0][0])
        return [(name, [partition for _, partition in items]) for name, items in groups]

    def news(
        self, answers: Iterable[tuple[TopicName, list[PartitionAnswer]]]
    ) -> list[tuple[TopicName, list[PartitionAnswer]]]:
        """What the client does not know yet. Who got records goes to the end of the order, so that all get their turn."""
        told: list[tuple[TopicName, list[PartitionAnswer]]] = []
        for name, partitions in answers:
            kept = [answer for answer in partitions if self._is_news(name, answer)]
            if kept:
                told.append((name, kept))
            for answer in kept:
                key = (name, answer.partition)
                if answer.batch_bytes and key in self._partitions:
                    self._partitions[key] = self._partitions.pop(key)
        return told

    def _is_news(self, name: TopicName, answer: PartitionAnswer) -> bool:
        key, facts = (name, answer.partition), (answer.end, answer.start)
        if answer.error:
            self._sent.pop(key, None)
            return True
        is_news = answer.batch_bytes > 0 or self._sent.get(key) != facts
        self._sent[key] = facts
        return is_news


class ConnectionSessions:
    """The session of one connection, if it has one."""

    _ids = itertools.count(1)
    """Shared by all connections, so that a session is never taken for another's."""

    def __init__(self) -> None:
        self._session: FetchSession | None = None

    def begin(self, request: FetchRequest) -> tuple[FetchSession | None, Wanted]:
        """The session that a request belongs to, and what it is to read. Raises SessionRefused."""
        if request.session_epoch == END:
            self._session = None
            return None, request.topics
        if request.session_epoch == BEGIN:
            self._session = None
            partitions = sum(len(partitions) for _, partitions in request.topics)
            if 0 < partitions <= PARTITIONS_MAX:
                self._session = FetchSession(next(self._ids) % EPOCH_LAST + 1, request.topics)
            return self._session, request.topics
        session = self._session
        if session is None or session.id != request.session_id:
            raise SessionRefused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        try:
            session.advance(request)
        except SessionRefused as refusal:
            if refusal.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session = None
            raise
        return session, session.wanted()

    def close(self) -> None:
        """The connection is gone."""
        self._session = None
