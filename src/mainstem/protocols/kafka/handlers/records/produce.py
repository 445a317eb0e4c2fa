"""Produce: one commit per partition, handed in together, answered when all is durable.

No work per record and no copy: a batch goes from the receive buffer to the log as it came.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import struct
from typing import TypeAlias
from uuid import UUID

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.errors import InvalidTransactionState, TransactionError, TransactionUnderWay, UnknownTopic
from mainstem.broker.log import Answer, Append, Commit, CommitResult, Committed
from mainstem.broker.staging.stages import PREFIX as STAGE_PREFIX
from mainstem.broker.staging.stages import StageAppend
from mainstem.broker.transactions.transactions import Identity
from mainstem.model.errors import InvalidBatch, InvalidRecords, MainstemError, MisdatedBatch
from mainstem.protocols.kafka.codec.fields import skip_tags
from mainstem.protocols.kafka.codec.produce import (
    FLEXIBLE_FROM,
    TOPIC_IDS_FROM,
    Outcome,
    PartitionOutcome,
    PartitionRecords,
    ProduceRequest,
    decode_produce,
    encode_produce,
)
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.records.opening import (
    Opened,
    Opening,
    check_survey,
    misdated_places,
    open_alone,
    open_large,
)
from mainstem.protocols.kafka.session.machine import Reply
from mainstem.wire.compression import ZSTD
from mainstem.wire.errors import UnknownMessage
from mainstem.wire.kafka import ErrorCode
from mainstem.wire.kafka.schema import Versions
from mainstem.wire.record_batch import (
    HEADER_BYTES,
    MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT,
    check_batch,
    stamp_log_append_time,
)
from mainstem.wire.record_batch.header import COMPRESSION_MASK, CONTROL, TRANSACTIONAL

log = logging.getLogger(__name__)

_HEADER = struct.Struct(">hhih")
_ATTRIBUTES_LOW_AT = 22
_MAGIC_AT = 16
_ZSTD_FROM = 7
_UNUSUAL = CONTROL | TRANSACTIONAL | int(ZSTD)
_IDENTITY = struct.Struct(">qh")
_TIME = struct.Struct(">q")
ABORTABLE_FROM = 11
IMPLICIT_FROM = 12
"""KIP-890: from here on, a partition takes part in a transaction by being written to."""
ACKS_NONE = 0
ACKS = frozenset({ACKS_NONE, 1, -1})

Outcomes: TypeAlias = list[tuple["str | bytes", list[Outcome]]]
OutcomeSlot: TypeAlias = tuple[list[Outcome], int, int, int]
"""Where a commit's outcome goes: the list, the place in it, the partition, and the time that was stamped."""

_OWED: Outcome = PartitionOutcome(-1, ErrorCode.NONE)
"""Stands where the outcome of a commit will be."""


class ProduceHandler:
    """Takes records in."""

    VERSIONS = Versions(3, 13)

    def __init__(self, broker: Broker) -> None:
        self._publish = broker.publish
        self._intake = broker.intake
        self._topics = broker.topics.named()
        self._topics_by_id = broker.topics.by_id
        self._now_ms = broker.clock.now_ms
        self._transactions = broker.transactions
        self._stages = broker.stages
        self._heavy_work = broker.heavy_work

    def handle(self, data: memoryview, reply: Reply) -> None:
        """Deal with one request. Raises for what cannot be understood."""
        _, version, correlation_id, client_length = _HEADER.unpack_from(data)
        if version not in self.VERSIONS:
            raise UnknownMessage(f"Produce has no version {version} here")
        position = 10 + max(client_length, 0)
        if version >= FLEXIBLE_FROM:
            position = skip_tags(data, position)
        request = decode_produce(data, position, version)
        if request.acks not in ACKS:
            outcomes: Outcomes = [
                (name, [PartitionOutcome(index, ErrorCode.INVALID_REQUIRED_ACKS) for index, _ in partitions])
                for name, partitions in request.topics
            ]
            reply.send(encode_produce(version, correlation_id, outcomes, reply.throttle_ms))
            return
        self._open(request, version, correlation_id, reply)

    def _open(self, request: ProduceRequest, version: int, correlation_id: int, reply: Reply) -> None:
        """Open the batches whose topics ask for it, then take the request in.

        While a thread opens large ones, no request behind this one begins: the log gets them in the order of the connection.
        """
        opening: Opening | None = None
        for name, partitions in request.topics:
            topic = self._find(name) or self._stage_topic(name)
            if topic is not None and topic.is_opened:
                if opening is None:
                    opening = Opening()
                for _, records in partitions:
                    opening.add(topic, records)
        if opening is None:
            self._take(request, version, correlation_id, reply, {})
            return
        if not opening.large:
            self._take(request, version, correlation_id, reply, opening.opened)
            return
        opened = opening.opened

        def finish(work: asyncio.Future[Opened]) -> None:
            try:
                if work.cancelled():
                    reply.refuse()  # The broker is going.
                else:
                    self._take(request, version, correlation_id, reply, opened | work.result())
            except Exception:
                log.exception("a request of large batches failed; its connection is closed")
                reply.refuse()
            finally:
                reply.unmute()

        reply.mute()
        self._heavy_work.run(functools.partial(open_large, opening.large)).add_done_callback(finish)

    def _stage_topic(self, name: str | bytes) -> Topic | None:
        """The topic that a stage is for."""
        if not isinstance(name, str) or not name.startswith(STAGE_PREFIX):
            return None
        try:
            return self._stages.destination(name).topic
        except MainstemError:
            return None  # Refused where its batches are.

    def _take(self, request: ProduceRequest, version: int, correlation_id: int, reply: Reply, opened: Opened) -> None:
        outcomes: Outcomes = []
        commits: list[Commit] = []
        places: list[OutcomeSlot] = []
        joining: list[tuple[int, Commit]] = []
        staged: list[tuple[int, StageAppend]] = []
        now_ms = self._now_ms()
        for name, partitions in request.topics:
            topic = self._find(name)
            answers: list[Outcome] = []
            outcomes.append((name, answers))
            if topic is None and isinstance(name, str) and name.startswith(STAGE_PREFIX):
                self._stage(name, partitions, answers, commits, places, staged, opened)
                continue
            for index, records in partitions:
                if topic is None or not 0 <= index < len(topic.logs):
                    answers.append(PartitionOutcome(index, _unknown(version)))
                    continue
                # Everything else about a batch is the log's to judge.
                unusual = records is None or len(records) < HEADER_BYTES or records[_ATTRIBUTES_LOW_AT] & _UNUSUAL
                if unusual:
                    refusal = self._judge(records, version, index, request)
                    if refusal is not None:
                        answers.append(refusal)
                        continue
                assert records is not None
                stamp = -1
                is_keyed = False
                try:
                    _check_times(topic, records, now_ms)
                    if topic.is_opened or topic.is_stamped:
                        records, stamp, is_keyed = self._judged(topic, records, opened)
                except MainstemError as error:
                    answers.append(_refusal(index, error))
                    continue
                if unusual and records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL:
                    commit = self._transactional_commit(topic.logs[index], records, version, index, request, is_keyed)
                    if isinstance(commit, PartitionOutcome):
                        answers.append(commit)
                        continue
                    if commit.state:
                        joining.append((len(commits), commit))
                    commits.append(commit)
                else:
                    log_id = topic.logs[index]
                    commits.append(
                        Commit((Append(log_id, records, is_keyed=True) if is_keyed else Append(log_id, records),))
                    )
                places.append((answers, len(answers), index, stamp))
                answers.append(_OWED)
        self._commit(commits, joining, staged, places, outcomes, version, correlation_id, request, reply)

    def _stage(
        self,
        name: str,
        partitions: list[PartitionRecords],
        answers: list[Outcome],
        commits: list[Commit],
        places: list[OutcomeSlot],
        staged: list[tuple[int, StageAppend]],
        opened: Opened,
    ) -> None:
        """Batches for a stage: hidden until it is published; see `broker.staging.stages`."""
        for index, records in partitions:
            try:
                if records is None or len(records) < HEADER_BYTES:
                    raise InvalidBatch("one record batch is needed")
                destination = self._stages.destination(name)
                topic = destination.topic
                if not 0 <= index < len(topic.logs):
                    raise UnknownTopic(f"topic {topic.name} has {len(topic.logs)} partitions")
                is_keyed = False
                _check_times(topic, records, self._now_ms())
                if topic.is_opened or topic.is_stamped:
                    records, _, is_keyed = self._judged(topic, records, opened)
                staged_batch = self._stages.add_batch(destination, index, records, is_keyed=is_keyed)
            except MainstemError as error:
                answers.append(_refusal(index, error))
                continue
            staged.append((len(commits), staged_batch))
            commits.append(staged_batch.commit)
            places.append((answers, len(answers), index, -1))
            answers.append(_OWED)

    def _commit(
        self,
        commits: list[Commit],
        joining: list[tuple[int, Commit]],
        staged: list[tuple[int, StageAppend]],
        places: list[OutcomeSlot],
        outcomes: Outcomes,
        version: int,
        correlation_id: int,
        request: ProduceRequest,
        reply: Reply,
    ) -> None:
        def finish(answer: Answer[list[CommitResult]]) -> None:
            _note(answer, places)
            reply.send(encode_produce(version, correlation_id, outcomes, reply.throttle_ms))

        def finish_silently(answer: Answer[list[CommitResult]]) -> None:
            _note(answer, places)
            refused = next((code for _, answers in outcomes for _, code, _, _, _, _ in answers if code), None)
            if refused is None:
                reply.send()
                return
            # The only way to tell a client that wants no answer, as Kafka does.
            log.info("records sent without acknowledgement were refused with code %d", refused)
            reply.refuse()

        published = self._publish(commits)
        if joining:
            published.on_done(lambda answer: self._confirm(answer, joining, request.transactional_id or ""))
        if staged:
            published.on_done(lambda answer: self._stages.note_results(staged, answer))
        published.on_done(finish_silently if request.acks == ACKS_NONE else finish)
        if self._intake.is_pressed:
            reply.mute()
            self._intake.when_relieved(reply.unmute)

    def _find(self, name: str | bytes) -> Topic | None:
        if isinstance(name, str):
            return self._topics.get(name)
        return self._topics_by_id.get(UUID(bytes=name))

    def _judge(
        self, records: memoryview | None, version: int, index: int, request: ProduceRequest
    ) -> PartitionOutcome | None:
        """A closer look at what is unusual; None if it may go on to the log."""
        if records is None or len(records) < HEADER_BYTES:
            return PartitionOutcome(index, ErrorCode.INVALID_RECORD, message="one record batch is needed")
        if records[_MAGIC_AT] != 2:
            return None
        attributes = records[_ATTRIBUTES_LOW_AT]
        if attributes & CONTROL:
            return PartitionOutcome(
                index, ErrorCode.INVALID_RECORD, message="control records are the broker's to write"
            )
        if attributes & COMPRESSION_MASK == ZSTD and version < _ZSTD_FROM:
            return PartitionOutcome(index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if attributes & TRANSACTIONAL and request.transactional_id is None:
            return PartitionOutcome(index, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return None

    def _transactional_commit(
        self, log_id: int, records: memoryview, version: int, index: int, request: ProduceRequest, is_keyed: bool
    ) -> Commit | PartitionOutcome:
        """A batch within a transaction: the commit that takes it, or why it may not be."""
        implicitly = version >= IMPLICIT_FROM
        append = Append(log_id, records, first_sequence_zero=implicitly, is_keyed=is_keyed)
        if records[_MAGIC_AT] != 2:
            return Commit((append,))  # for the log to refuse
        assert request.transactional_id is not None
        identity = Identity(*_IDENTITY.unpack_from(records, PRODUCER_ID_AT))
        try:
            return self._transactions.commit_for(request.transactional_id, identity, append, implicitly=implicitly)
        except TransactionUnderWay as error:
            # Of all that clients retry, this one says that nothing was written.
            return PartitionOutcome(index, ErrorCode.NOT_ENOUGH_REPLICAS, message=str(error))
        except InvalidTransactionState as error:
            code = ErrorCode.TRANSACTION_ABORTABLE if version >= ABORTABLE_FROM else ErrorCode.INVALID_TXN_STATE
            return PartitionOutcome(index, code, message=str(error))
        except TransactionError as error:
            return PartitionOutcome(index, code_of(error), message=str(error))

    def _confirm(self, answer: Answer[list[CommitResult]], joining: list[tuple[int, Commit]], name: str) -> None:
        """Partitions that became part of the transaction with their first batch are so, durably."""
        for at, commit in joining if answer.error is None else ():
            if isinstance(answer.result()[at], Committed):
                self._transactions.confirm(name, commit)

    def _judged(self, topic: Topic, records: memoryview, opened: Opened) -> tuple[memoryview, int, bool]:
        """A batch as the topic stores it, the time put on it, and whether its records are known to have keys.

        Raises what is wrong with it. It is checked before, because its checksum changes.
        """
        now_ms, is_keyed = self._now_ms(), False
        if topic.is_opened:
            survey = opened.get(id(records))
            if survey is None:
                survey = open_alone(topic, records)  # The topic was changed a moment ago.
            if isinstance(survey, MainstemError):
                raise survey
            check_survey(topic, survey, now_ms)
            records, is_keyed = memoryview(survey.batch), survey.is_keyed is True
        else:
            check_batch(records)
        if not topic.is_stamped:
            return records, -1, is_keyed
        stamp_log_append_time(records, now_ms)
        return records, now_ms, is_keyed


def _unknown(version: int) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS_FROM else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _check_times(topic: Topic, records: memoryview, now_ms: int) -> None:
    """Raises MisdatedBatch if a record is of the future. Times long past are found when the batch is opened."""
    ahead = topic.after_max_ms
    if ahead is not None:
        (newest,) = _TIME.unpack_from(records, MAX_TIMESTAMP_AT)
        if newest - now_ms > ahead and check_batch(records):
            places = misdated_places(records, 0, now_ms + ahead)
            raise MisdatedBatch(f"a record is dated {newest}, more than {ahead} ms ahead of our clock", places)


def _refusal(index: int, error: Exception) -> PartitionOutcome:
    refused = error.places if isinstance(error, InvalidRecords) else ()
    return PartitionOutcome(index, code_of(error), message=str(error), refused=refused)


def _note(answer: Answer[list[CommitResult]], places: list[OutcomeSlot]) -> None:
    """Write what became of each commit to its place."""
    error = answer.error
    if error is not None:
        code = code_of(error)
        for answers, at, index, _ in places:
            answers[at] = PartitionOutcome(index, code)
        return
    for (answers, at, index, stamp), result in zip(places, answer.result(), strict=True):
        if isinstance(result, Committed):
            # A batch that its stage holds already has no base.
            answers[at] = (index, 0, result.bases[0] if result.bases else -1, stamp, None, ())
        else:
            answers[at] = _refusal(index, result)
