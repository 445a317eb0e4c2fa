"""Fetch: what is there is answered at once; where that is too little, the answer waits for more, or for its time."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from uuid import UUID

from mainstem.broker.broker import Broker
from mainstem.broker.clock import Timer
from mainstem.broker.log import Answer, Buffer, LogEnd, ReadHint, ReadResult
from mainstem.model.errors import OffsetOutOfRange, UnknownLog
from mainstem.protocols.kafka.codec.fetch import (
    FLEXIBLE_FROM,
    TOPIC_IDS_FROM,
    FetchRequest,
    PartitionAnswer,
    PartitionFetch,
    decode_fetch,
    encode_fetch,
)
from mainstem.protocols.kafka.codec.fields import skip_tags
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.records.fetch_sessions import (
    BEGIN,
    ConnectionSessions,
    FetchSession,
    SessionRefused,
    Wanted,
)
from mainstem.protocols.kafka.session.machine import ConnectionState, Reply
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.wire.errors import UnknownMessage
from mainstem.wire.kafka import ErrorCode
from mainstem.wire.kafka.schema import Versions

_HEADER = struct.Struct(">hhih")
_BASE_LENGTH = struct.Struct(">qi")
_LOG_OVERHEAD = 12
BEHIND_MAX = 10_000
"""Logs of one connection that are known to be read behind their end; when there are more, all are forgotten."""


class FetchHandler:
    """Gives records out."""

    VERSIONS = Versions(4, 18)

    def __init__(self, broker: Broker, settings: KafkaSettings) -> None:
        self._broker = broker
        self._settings = settings
        self._topics = broker.topics.named()
        self._topics_by_id = broker.topics.by_id

    def handle(self, data: memoryview, reply: Reply, connection: ConnectionState) -> None:
        """Deal with one request. Raises for what cannot be understood."""
        _, version, correlation_id, client_length = _HEADER.unpack_from(data)
        if version not in self.VERSIONS:
            raise UnknownMessage(f"Fetch has no version {version} here")
        position = 10 + max(client_length, 0)
        if version >= FLEXIBLE_FROM:
            position = skip_tags(data, position)
        request = decode_fetch(data, position, version)
        sessions: ConnectionSessions = connection.get("fetch session", ConnectionSessions)
        try:
            session, wanted = sessions.begin(request)
        except SessionRefused as refusal:
            reply.send(*encode_fetch(version, correlation_id, [], refusal.code, throttle_ms=reply.throttle_ms))
            return
        reader: ConnectionReader = connection.get("fetch", lambda: ConnectionReader(self._broker))
        bytes_max = min(request.bytes_max, self._settings.fetch_bytes_max)
        if reply.allowance is not None:
            bytes_max = min(bytes_max, reply.allowance.bytes_max)
        places = self._place(request, wanted, version)
        reader.begin(Fetch(request, bytes_max, wanted, places, session), version, correlation_id, reply)

    def _place(self, request: FetchRequest, topics: Wanted, version: int) -> list[FetchedPartition]:
        places: list[FetchedPartition] = []
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS_FROM else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for name, partitions in topics:
            topic = self._topics.get(name) if isinstance(name, str) else self._topics_by_id.get(UUID(bytes=name))
            for wanted in partitions:
                place = FetchedPartition(wanted)
                if topic is None:
                    place.refuse(unknown)
                elif not 0 <= wanted.partition < len(topic.logs):
                    place.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                elif request.replica_id >= 0:
                    place.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                elif wanted.leader_epoch > self._broker.term:
                    place.refuse(ErrorCode.UNKNOWN_LEADER_EPOCH)
                elif 0 <= wanted.leader_epoch < self._broker.term:
                    place.refuse(ErrorCode.FENCED_LEADER_EPOCH)
                else:
                    place.log = topic.logs[wanted.partition]
                places.append(place)
        return places


class FetchedPartition:
    """One partition of one fetch, and what there is for it so far."""

    __slots__ = ("answer", "is_unread", "log", "reserved_bytes", "wanted")

    def __init__(self, wanted: PartitionFetch) -> None:
        self.wanted = wanted
        self.log = -1
        self.reserved_bytes = 0
        self.is_unread = False
        """Whether others had reserved all room of the answer when its turn came."""
        self.answer = PartitionAnswer(wanted.partition, ErrorCode.NONE)

    def refuse(self, code: int) -> None:
        """Nothing for this partition, and why."""
        self.answer = PartitionAnswer(self.wanted.partition, code)


class Fetch:
    """One request: its places, and how much it has gathered."""

    __slots__ = (
        "_bytes_left",
        "_bytes_max",
        "_committed_only",
        "_is_full",
        "_reserved_bytes",
        "gathered_bytes",
        "places",
        "refused",
        "request",
        "session",
        "wanted",
    )

    def __init__(
        self,
        request: FetchRequest,
        bytes_max: int,
        wanted: Wanted,
        places: list[FetchedPartition],
        session: FetchSession | None = None,
    ) -> None:
        self.request = request
        self.wanted = wanted
        self.session = session
        self.places = places
        self.gathered_bytes = 0
        self._reserved_bytes = 0
        self._bytes_max = bytes_max
        self._bytes_left = bytes_max
        self._is_full = False
        self._committed_only = request.committed_only
        self.refused = any(place.answer.error for place in places)

    def reserve(self, place: FetchedPartition) -> int:
        """What one more read may bring: held back from the others until it has come. The first brings a batch in any case."""
        place.is_unread = self._bytes_left <= 0 and (self.gathered_bytes or self._reserved_bytes) > 0
        if place.is_unread:
            return 0
        place.reserved_bytes = max(1, min(place.wanted.bytes_max, self._bytes_left))
        self._reserved_bytes += place.reserved_bytes
        self._bytes_left -= place.reserved_bytes
        return place.reserved_bytes

    def take(self, place: FetchedPartition, answer: Answer[ReadResult]) -> None:
        """What was read for a place; it replaces what was there before.

        Only an answer that holds nothing else takes a batch above its limits: some clients read no larger answer.
        """
        index = place.wanted.partition
        self.gathered_bytes -= place.answer.batch_bytes
        self._reserved_bytes -= place.reserved_bytes
        self._bytes_left += place.answer.batch_bytes + place.reserved_bytes
        place.reserved_bytes = 0
        error = answer.error
        if error is not None:
            self.refused = True
            place.answer = _refusal(index, error)
            return
        result = answer.result()
        batches = result.batches
        aborted: list[tuple[int, int]] | None = None
        if self._committed_only:
            batches, after = _stable_part(result)
            aborted = [(a.producer, a.first) for a in result.aborted if a.first < after]
        size = sum(map(len, batches))
        room = min(place.wanted.bytes_max, self._bytes_max - self.gathered_bytes)
        if self.gathered_bytes and size > room:
            batches, size = _fitting_part(batches, room)
            self._is_full = True
        self.gathered_bytes += size
        self._bytes_left -= size
        place.answer = PartitionAnswer(
            index, ErrorCode.NONE, result.end, result.stable, result.start, batches, size, aborted
        )

    @property
    def is_enough(self) -> bool:
        """Whether there is no reason to wait for more."""
        if self.refused or not self.places or self.request.max_wait_ms <= 0:
            return True
        return self._is_full or self.gathered_bytes >= min(self.request.bytes_min, self._bytes_max)

    def unread_places(self) -> list[FetchedPartition]:
        """Those that had no room and have some now, because others brought less than they had reserved."""
        has_room = self._bytes_left > 0 or not self.gathered_bytes
        return [place for place in self.places if place.is_unread] if has_room else []

    def encode_empty(self, version: int, correlation_id: int, throttle_ms: int) -> Sequence[Buffer]:
        """The response to who is over the limit: nothing, and when to come again. A session is not begun with it."""
        session_id = 0 if self.session is None or self.request.session_epoch == BEGIN else self.session.id
        return encode_fetch(version, correlation_id, [], session_id=session_id, throttle_ms=throttle_ms)

    def encode(self, version: int, correlation_id: int, throttle_ms: int) -> Sequence[Buffer]:
        """The response."""
        answers = iter(self.places)
        topics = [(name, [next(answers).answer for _ in partitions]) for name, partitions in self.wanted]
        session = self.session
        if session is None:
            return encode_fetch(version, correlation_id, topics, throttle_ms=throttle_ms)
        news = session.news(topics)
        # The first answer of a session is whole; after it, what did not change is left out.
        told = topics if self.request.session_epoch == BEGIN else news
        return encode_fetch(version, correlation_id, told, session_id=session.id, throttle_ms=throttle_ms)


class ConnectionReader:
    """Reads for one connection, which has one fetch at a time: keeps its watch from one fetch to the next."""

    def __init__(self, broker: Broker) -> None:
        self._read = broker.read
        self._clock = broker.clock
        self._watch = broker.watch(self._moved)
        self._watched: set[int] = set()
        self._fetch: Fetch | None = None
        self._reading = 0
        self._timer: Timer | None = None
        self._behind: set[int] = set()
        """Logs of which the last read left something: what follows is read ahead."""

    def begin(self, fetch: Fetch, version: int, correlation_id: int, reply: Reply) -> None:
        """Answer the fetch now or later."""
        assert self._fetch is None, "a connection has one fetch at a time"
        self._fetch = fetch
        self._version = version
        self._correlation_id = correlation_id
        self._reply = reply
        reply.release = self._release
        self._gather([place for place in fetch.places if place.log >= 0])
        if self._fetch is fetch:
            reply.on_drain(self._finish)

    def _release(self) -> None:
        self._abandon()

    def close(self) -> None:
        """The connection is gone."""
        self._abandon()
        self._watch.close()

    def _gather(self, places: Sequence[FetchedPartition]) -> None:
        """Read for these places; go on when all has come."""
        fetch = self._fetch
        assert fetch is not None
        self._reading += 1  # until all reads have begun
        for place in places:
            hint = ReadHint.CATCH_UP if place.log in self._behind else ReadHint.TAIL
            answer = self._read(place.log, place.wanted.offset, fetch.reserve(place), hint)
            if answer.done:
                self._take(fetch, place, answer)
            else:
                self._reading += 1
                answer.on_done(lambda done, place=place: self._has_read(fetch, place, done))  # type: ignore[misc]
        self._reading -= 1
        self._advance()

    def _has_read(self, fetch: Fetch, place: FetchedPartition, answer: Answer[ReadResult]) -> None:
        if self._fetch is not fetch:
            return  # abandoned meanwhile
        self._take(fetch, place, answer)
        self._reading -= 1
        self._advance()

    def _take(self, fetch: Fetch, place: FetchedPartition, answer: Answer[ReadResult]) -> None:
        fetch.take(place, answer)
        if answer.error is None:
            result = answer.result()
            if result.batches and result.next_offset < result.end:
                if len(self._behind) >= BEHIND_MAX:
                    self._behind.clear()
                self._behind.add(place.log)
                return
        self._behind.discard(place.log)

    def _advance(self) -> None:
        fetch = self._fetch
        if fetch is None or self._reading:
            return
        if fetch.is_enough:
            self._finish()
            return
        unread = fetch.unread_places()
        if unread:
            self._gather(unread)
            return
        if self._timer is None:
            self._timer = self._clock.call_later(fetch.request.max_wait_ms / 1000, self._finish)
        self._gather_grown(fetch)

    def _gather_grown(self, fetch: Fetch) -> None:
        """Watch all places; read again where something came since they were read."""
        wanted = {place.log for place in fetch.places}
        for log in self._watched - wanted:
            self._watch.remove(log)
        grown = []
        for place in fetch.places:
            try:
                end = self._watch.add(place.log)
            except UnknownLog:
                grown.append(place)  # deleted meanwhile: reading says so
                continue
            if end is not None and end.end != place.answer.end:  # None: it is told later
                grown.append(place)
        self._watched = wanted
        if grown:
            self._gather(grown)

    def _moved(self, ends: Mapping[int, LogEnd]) -> None:
        fetch = self._fetch
        if fetch is None or self._reading:
            return
        moved = [place for place in fetch.places if place.log in ends and ends[place.log].end != place.answer.end]
        if moved:
            self._gather(moved)

    def _finish(self) -> None:
        fetch, reply = self._fetch, self._abandon()
        if fetch is not None and reply is not None:
            may = reply.allowance is None or reply.allowance.charge(fetch.gathered_bytes, reply)
            encode = fetch.encode if may else fetch.encode_empty
            reply.send(*encode(self._version, self._correlation_id, reply.throttle_ms))

    def _abandon(self) -> Reply | None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fetch is None:
            return None
        self._fetch = None
        self._reading = 0
        return self._reply


def _refusal(index: int, error: BaseException) -> PartitionAnswer:
    if isinstance(error, OffsetOutOfRange):
        return PartitionAnswer(index, ErrorCode.OFFSET_OUT_OF_RANGE, error.end, error.end, error.start)
    return PartitionAnswer(index, code_of(error))


def _fitting_part(batches: Sequence[Buffer], bytes_max: int) -> tuple[Sequence[Buffer], int]:
    """The whole batches that fit in, and their size."""
    kept: list[Buffer] = []
    left = bytes_max
    for buffer in batches:
        size = len(buffer)
        if size > left:
            position = 0
            while position < size:
                length = _BASE_LENGTH.unpack_from(buffer, position)[1] + _LOG_OVERHEAD
                if position + length > left:
                    break
                position += length
            if position:
                kept.append(memoryview(buffer)[:position])
            return kept, bytes_max - left + position
        kept.append(buffer)
        left -= size
    return kept, bytes_max - left


def _stable_part(result: ReadResult) -> tuple[Sequence[Buffer], int]:
    """The batches below the last stable offset, and where they end."""
    if result.next_offset <= result.stable:
        return result.batches, result.next_offset
    kept: list[Buffer] = []
    for buffer in result.batches:
        position, size = 0, len(buffer)
        while position < size:
            base, length = _BASE_LENGTH.unpack_from(buffer, position)
            if base >= result.stable:
                if position:
                    kept.append(memoryview(buffer)[:position])
                return kept, result.stable
            position += length + _LOG_OVERHEAD
        kept.append(buffer)
    return kept, result.stable
