"""Share sessions: which partitions a member takes records from, kept from one ShareFetch to the next.

A session begins with epoch 0, goes on with 1, 2, 3 ..., and ends with epoch -1 or with its connection; what its member held is
given back then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from uuid import UUID

from mainstem.wire.kafka import ErrorCode

BEGINS, ENDS = 0, -1
EPOCH_MAX = 2**31 - 1
SESSIONS_MAX = 2_000
"""As group.share.max.share.sessions of Kafka."""


class Spot(NamedTuple):
    """A partition as requests name it."""

    topic: UUID
    partition: int


class ShareSessionRefused(Exception):
    """The session is not as the member believes."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class ShareSession:
    """What one member of one group takes records from."""

    def __init__(self, group: str, member: str, connection: ShareConnection) -> None:
        self.group = group
        self.member = member
        self.connection = connection
        self.epoch = BEGINS
        self.spots: dict[Spot, None] = {}

    def revise(self, topics: Iterable[Any], forgotten: Iterable[Any]) -> None:
        """Partitions that a request names come in, those that it forgets go."""
        for topic in topics:
            for partition in topic.partitions:
                self.spots.setdefault(Spot(topic.topic_id, partition.partition_index))
        for topic in forgotten:
            for index in topic.partitions:
                self.spots.pop(Spot(topic.topic_id, index), None)

    def turn(self, spots: Iterable[Spot]) -> None:
        """Others come first next time."""
        for spot in spots:
            if spot in self.spots:
                del self.spots[spot]
                self.spots[spot] = None


class ShareConnection:
    """The sessions of one connection."""

    def __init__(self, sessions: ShareSessions) -> None:
        self._sessions = sessions
        self.is_closed = False

    def close(self) -> None:
        """The connection is gone, and its sessions with it."""
        self.is_closed = True
        self._sessions.drop_all(self)


class ShareSessions:
    """All sessions, by group and member."""

    def __init__(self, give_back: Callable[[str, str], None]) -> None:
        self._give_back = give_back
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def begin(self, group: str, member: str, epoch: int, connection: ShareConnection) -> ShareSession:
        """The session of a request. Raises ShareSessionRefused."""
        key = (group, member)
        session = self._sessions.get(key)
        if epoch == BEGINS:
            if session is None and len(self._sessions) >= SESSIONS_MAX:
                raise ShareSessionRefused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
            session = self._sessions[key] = ShareSession(group, member, connection)
        elif session is None:
            raise ShareSessionRefused(ErrorCode.SHARE_SESSION_NOT_FOUND)
        elif epoch not in (session.epoch, ENDS):
            raise ShareSessionRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.connection = connection
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        return session

    def drop(self, session: ShareSession) -> None:
        """It is over."""
        key = (session.group, session.member)
        if self._sessions.get(key) is session:
            del self._sessions[key]
            self._give_back(*key)

    def drop_all(self, connection: ShareConnection) -> None:
        """All of a connection."""
        for session in [each for each in self._sessions.values() if each.connection is connection]:
            self.drop(session)
