"""ShareFetch and ShareAcknowledge: records given out one by one, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.subscriptions.subscriptions import ReadRequest, Ruling, Taken
from mainstem.broker.subscriptions.wait import Wait
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.shares.sessions import (
    BEGINS,
    ENDS,
    ShareConnection,
    ShareSession,
    ShareSessionRefused,
    ShareSessions,
    Spot,
)
from mainstem.protocols.kafka.handlers.shares.verdicts import InvalidAcknowledgement, read_verdicts
from mainstem.protocols.kafka.mapping import log_of
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.wire.kafka import ApiKey, ErrorCode

RENEW_FROM = 2
RECORD_LIMIT = 1
"""The mode of acquiring in which not one record more than asked for is given (KIP-1206)."""
PARTITION_BYTES_MAX = 1 << 20


class ShareFetchHandlers:
    """ShareFetch, ShareAcknowledge."""

    def __init__(self, broker: Broker, settings: KafkaSettings) -> None:
        self._groups = broker.share_groups
        self._subscriptions = broker.share_groups.subscriptions
        self._topics = broker.topics.by_id
        self._clock = broker.clock
        self._leader: Body = {"leader_id": broker.node, "leader_epoch": broker.term}
        self._bytes_max = settings.fetch_bytes_max
        self._sessions = ShareSessions(self._subscriptions.give_back)

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.SHARE_FETCH: Served(self.fetch, 1, 2),
            ApiKey.SHARE_ACKNOWLEDGE: Served(self.acknowledge, 1, 2),
        }

    async def acknowledge(self, call: Call) -> Body:
        """Settle, renew or release; answered when durable."""
        body = call.body
        try:
            if body.share_session_epoch == BEGINS:
                raise ShareSessionRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session = self._begin(call)
        except ShareSessionRefused as refusal:
            return {"error_code": refusal.code}
        may_renew = call.version >= RENEW_FROM and body.is_renew_ack
        codes = await self._settle(session, body.topics, may_renew)
        if body.share_session_epoch == ENDS:
            self._sessions.drop(session)
        answers = {spot: {"error_code": code} for spot, code in codes.items()}
        return {"acquisition_lock_timeout_ms": self._lock_ms(session), "responses": _by_topic(answers, self._leader)}

    async def fetch(self, call: Call) -> Body:
        """What is free, or the next that comes to be within the time; acknowledgements first."""
        body = call.body
        is_renewal = call.version >= RENEW_FROM and body.is_renew_ack
        try:
            _check(body, is_renewal)
            session = self._begin(call)
        except ShareSessionRefused as refusal:
            return {"error_code": refusal.code}
        if body.share_session_epoch != ENDS:
            session.revise(body.topics, body.forgotten_topics_data)
        codes = await self._settle(session, body.topics, is_renewal)
        answers: dict[Spot, Body] = {spot: {"acknowledge_error_code": code} for spot, code in codes.items()}
        if body.share_session_epoch == ENDS:
            self._sessions.drop(session)
        elif not is_renewal:
            for spot, found in (await self._gather(session, call)).items():
                answers[spot] = answers.get(spot, {}) | found
        for answer in answers.values():
            answer.setdefault("records", b"")
        return {"acquisition_lock_timeout_ms": self._lock_ms(session), "responses": _by_topic(answers, self._leader)}

    # -----------------------------------------------------------------------------------------------------------------

    def _begin(self, call: Call) -> ShareSession:
        body = call.body
        if not body.group_id or not body.member_id:
            raise ShareSessionRefused(ErrorCode.INVALID_REQUEST)
        if body.group_id not in self._groups:
            raise ShareSessionRefused(ErrorCode.GROUP_ID_NOT_FOUND)
        connection: ShareConnection = call.connection.get("share", lambda: ShareConnection(self._sessions))
        return self._sessions.begin(body.group_id, body.member_id, body.share_session_epoch, connection)

    def _lock_ms(self, session: ShareSession) -> int:
        return self._groups.configs.rules(session.group).policy.lease_ms or 0

    def _place(self, spot: Spot) -> int | ErrorCode:
        """The log of a partition, or why there is none."""
        topic = self._topics.get(spot.topic)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        log = log_of(topic, spot.partition)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if log is None else log

    async def _settle(self, session: ShareSession, topics: Sequence[Any], may_renew: bool) -> dict[Spot, ErrorCode]:
        """Of every partition that something was said about: whether it holds."""
        codes: dict[Spot, ErrorCode] = {}
        rulings: dict[int, list[Ruling]] = {}
        spots: dict[int, Spot] = {}
        for topic in topics:
            for partition in topic.partitions:
                if not partition.acknowledgement_batches:
                    continue
                spot = Spot(topic.topic_id, partition.partition_index)
                log = self._place(spot)
                if isinstance(log, ErrorCode):
                    codes[spot] = log
                    continue
                codes[spot] = ErrorCode.NONE
                try:
                    rulings[log] = read_verdicts(partition.acknowledgement_batches, may_renew)
                    spots[log] = spot
                except InvalidAcknowledgement:
                    codes[spot] = ErrorCode.INVALID_REQUEST
        if rulings:
            refused = await self._subscriptions.rule(session.group, session.member, rulings)
            codes |= {spots[log]: code_of(error) for log, error in refused.items()}
        return codes

    async def _gather(self, session: ShareSession, call: Call) -> dict[Spot, Body]:
        """Take from all partitions of the session, again and again until there is something or the time is over."""
        deadline = self._clock.monotonic() + call.body.max_wait_ms / 1000
        hurried = False
        waiting: Wait | None = None

        def hurry() -> None:
            nonlocal hurried
            hurried = True
            if waiting is not None:
                waiting.finish()

        call.reply.on_drain(hurry)
        call.reply.release = hurry
        looked: dict[int, int | None] = {}
        while True:
            left = deadline - self._clock.monotonic()
            answers: dict[Spot, Body] = {}
            if hurried or left <= 0 or await self._is_enough(session, call, looked):
                answers = await self._take_all(session, call)
            if session.connection.is_closed:
                self._subscriptions.give_back(session.group, session.member)
                return {}
            if answers or hurried or left <= 0:
                return answers
            waiting = self._subscriptions.wait(session.group, looked, left)
            await waiting

    async def _is_enough(self, session: ShareSession, call: Call, looked: dict[int, int | None]) -> bool:
        """Whether there is as much to take as the client waits for. Notes up to where each log was looked at."""
        wanted = min(call.body.min_bytes, call.body.max_bytes, self._bytes_max)
        found = 0
        looked.clear()
        for spot in list(session.spots):
            log = self._place(spot)
            if isinstance(log, ErrorCode):
                return True  # to be told at once
            looked[log] = None
        if wanted <= 1:
            return True
        for log in looked:
            try:
                await self._groups.open(session.group, log)
                available = await self._subscriptions.measure(session.group, log, min(wanted, PARTITION_BYTES_MAX))
            except MainstemError:
                return True
            looked[log] = available.end
            found += available.size
            if found >= wanted or available.size >= PARTITION_BYTES_MAX:
                return True
        return False

    async def _take_all(self, session: ShareSession, call: Call) -> dict[Spot, Body]:
        body = call.body
        is_strict = call.version >= RENEW_FROM and body.share_acquire_mode == RECORD_LIMIT
        records_left, bytes_left = body.max_records, min(body.max_bytes, self._bytes_max)
        answers: dict[Spot, Body] = {}
        has_records = False
        for spot in list(session.spots):
            if records_left <= 0 or bytes_left <= 0:
                break
            size = min(bytes_left, PARTITION_BYTES_MAX)
            wish = ReadRequest(session.member, records_left, size, is_strict, max(body.batch_size, 1), has_records)
            log = self._place(spot)
            try:
                if isinstance(log, ErrorCode):
                    answers[spot] = {"error_code": log}
                    continue
                await self._groups.open(session.group, log)
                taken: Taken = await self._subscriptions.take(session.group, log, wish)
            except MainstemError as error:
                answers[spot] = {"error_code": code_of(error), "error_message": str(error)}
                continue
            if taken.leased:
                has_records = True
                records = b"".join(taken.batches)
                records_left -= taken.records
                bytes_left -= len(records)
                answers[spot] = {
                    "records": records,
                    "acquired_records": [
                        {"first_offset": first, "last_offset": last, "delivery_count": count}
                        for first, last, count in taken.leased
                    ],
                }
        session.turn(answers)
        return answers


def _check(body: Any, is_renewal: bool) -> None:
    """What a ShareFetch must not say. Raises ShareSessionRefused."""
    is_wrong = body.share_session_epoch == BEGINS and any(
        partition.acknowledgement_batches for topic in body.topics for partition in topic.partitions
    )
    # KIP-1222: who renews does not fetch.
    if is_renewal and (body.max_wait_ms or body.min_bytes or body.max_bytes or body.max_records):
        is_wrong = True
    if is_wrong:
        raise ShareSessionRefused(ErrorCode.INVALID_REQUEST)


def _by_topic(answers: dict[Spot, Body], leader: Body) -> list[Body]:
    topics: dict[Any, list[Body]] = {}
    for (topic, partition), answer in answers.items():
        topics.setdefault(topic, []).append({"partition_index": partition, "current_leader": leader} | answer)
    return [{"topic_id": topic, "partitions": partitions} for topic, partitions in topics.items()]
