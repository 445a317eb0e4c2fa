"""From stages to the topics that their records are meant for.

What fits into one commit is published by one: batches, the number of the batch, the end of its stages. What does not is
copied in parts under a transaction of our own, which the same kind of commit ends: its markers, the number, the end of the
stages. So readers see all of it or nothing, however large it is; only those who read uncommitted data see it arrive. Nothing
waits for an open stage: the transaction begins when the last task has ended, and lasts as long as the copying.

In the log of a stage each batch comes behind its label, which says where it is to go: to a partition, or into the schedule
until its records are due for that partition (`stage_schedule`).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote
from uuid import UUID

import msgspec

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.schedules import Schedules
from mainstem.broker.staging.limits import StageLimits
from mainstem.broker.staging.schedule import LaterRecords
from mainstem.broker.transactions.transactions import CommitBy, Identity, Transactions
from mainstem.coordination.errors import UnknownTopic
from mainstem.coordination.staging.stages import Stage
from mainstem.model.errors import CommitTooLarge, CorruptData, MainstemError, UnknownLog
from mainstem.model.staging import SinkKey
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Append, Commit, CommitResult, Engine, LogChange, Mutation, ReadHint
from mainstem.wire.record_batch import (
    HEADER,
    Record,
    batches_in,
    decode_records,
    encode_batch,
    join_transaction,
    stamp_log_append_time,
)

PARTS_MAX = 1
"""Parts on their way to the disk while the next one is read."""
TRANSACTION_PREFIX = "stages/"
TRANSACTION_MS_MAX = 900_000
"""How long one publication may copy."""
SEQUENCE_MASK = 0x7FFF_FFFF

_COUNT_AT = -1


class Label(msgspec.Struct, frozen=True, array_like=True):
    """Where the batch behind it is to go."""

    topic: bytes
    partition: int
    name: str
    """For the sentence that is needed when the topic is gone."""
    is_later: bool = False
    """Each record has its time, and goes there then."""
    is_keyed: bool = False
    """Every record was seen to have a key."""


_encode_label = msgspec.msgpack.Encoder().encode
_decode_label = msgspec.msgpack.Decoder(Label).decode


def encode_label(
    topic: Topic, partition: int, now_ms: int, *, is_later: bool = False, is_keyed: bool = False
) -> bytearray:
    """The batch that stands before the one it is about."""
    label = Label(topic.id.bytes, partition, topic.name, is_later, is_keyed)
    return encode_batch([Record(0, now_ms, None, _encode_label(label))])


class Staged(NamedTuple):
    """A batch on its way, and the partition it is meant for."""

    topic: Topic
    partition: int
    batch: bytearray
    is_later: bool
    is_keyed: bool

    @property
    def log(self) -> int:
        """Of the partition."""
        return self.topic.logs[self.partition]

    @property
    def records(self) -> int:
        """Its records."""
        count: int = HEADER.unpack_from(self.batch)[_COUNT_AT]
        return count


class StageRemoval(NamedTuple):
    """What is to be durable together with the batches: the number of the batch, and the end of the stages."""

    logs: Sequence[LogChange]
    state: Sequence[Mutation]


class Copied(NamedTuple):
    """What was published, or scheduled."""

    records: int
    bytes: int


class PartsUnderWay:
    """Parts of a copy on their way to the disk, while the next one is read. At the end, however it comes, there are none."""

    def __init__(self) -> None:
        self._parts: deque[Answer[list[CommitResult]]] = deque()

    async def __aenter__(self) -> PartsUnderWay:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        refusal: MainstemError | None = None
        while self._parts:
            try:
                await self._end_first()
            except MainstemError as error:
                refusal = refusal or error
        if refusal is not None and kind is None:
            raise refusal

    async def take(self, part: Answer[list[CommitResult]]) -> None:
        """One more; wait while that is too many. Raises what the log refuses."""
        self._parts.append(part)
        if len(self._parts) > PARTS_MAX:
            await self._end_first()

    async def _end_first(self) -> None:
        (result,) = await self._parts.popleft()
        if isinstance(result, MainstemError):
            raise result


def transaction_name(sink: SinkKey) -> str:
    """One for each sink: both parts may hold slashes."""
    return f"{TRANSACTION_PREFIX}{quote(sink.query, safe='')}/{quote(sink.sink, safe='')}"


class Publication:
    """Publishes stages. All of it raises UnknownTopic, and what the log refuses."""

    def __init__(
        self,
        engine: Engine,
        transactions: Transactions,
        topics: Mapping[UUID, Topic],
        schedules: Schedules,
        limits: StageLimits,
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._transactions = transactions
        self._topics = topics
        self._schedules = schedules

    async def publish(
        self,
        sink: SinkKey,
        stages: Mapping[Stage, int],
        ending: StageRemoval,
        stored_bytes: int,
        now_ms: int,
        commit_by: CommitBy | None = None,
    ) -> Copied:
        """Publish stages, each up to its end, together with what ends them, and with what `commit_by` adds to that."""
        commit_by = commit_by or self._commit_alone
        try:
            if stored_bytes <= self._limits.publish_bytes_max:
                with contextlib.suppress(CommitTooLarge):  # an operator may have set a smaller limit
                    return await self._at_once(stages, ending, now_ms, commit_by)
            return await self._in_parts(sink, stages, ending, now_ms, commit_by)
        except UnknownLog:
            raise UnknownTopic("a topic that rows are meant for was deleted while they were published") from None

    async def _at_once(
        self, stages: Mapping[Stage, int], ending: StageRemoval, now_ms: int, commit_by: CommitBy
    ) -> Copied:
        appends: list[Append] = []
        later = LaterRecords(self._schedules, now_ms, self._limits.scheduled_bytes_max)
        records = size = 0
        async for staged in self._read(stages, now_ms):
            records += staged.records
            size += len(staged.batch)
            if staged.is_later:
                later.take(staged.topic, staged.partition, staged.batch)
            else:
                appends.append(Append(staged.log, memoryview(staged.batch), is_keyed=staged.is_keyed))
        await self._commit(Commit(appends, state=ending.state, changes=ending.logs), later.joining(commit_by))
        return Copied(records, size)

    async def _in_parts(
        self, sink: SinkKey, stages: Mapping[Stage, int], ending: StageRemoval, now_ms: int, commit_by: CommitBy
    ) -> Copied:
        name = transaction_name(sink)
        identity = await self._transactions.begin(name, TRANSACTION_MS_MAX, None)
        later = LaterRecords(self._schedules, now_ms, self._limits.scheduled_bytes_max)
        try:
            copied = await self._copy(name, identity, stages, later, now_ms)
            beside = Commit(state=ending.state, changes=ending.logs)
            await self._transactions.end(
                name, identity, commit=True, raises_epoch=False, beside=beside, commit_by=later.joining(commit_by)
            )
        except MainstemError:
            # If even this is refused, the next attempt to publish begins with it, and so does time.
            with contextlib.suppress(MainstemError):
                await self._transactions.end(name, identity, commit=False, raises_epoch=False)
            raise
        return copied

    async def _copy(
        self, name: str, identity: Identity, stages: Mapping[Stage, int], later: LaterRecords, now_ms: int
    ) -> Copied:
        sequences: dict[int, int] = {}
        appends: list[Append] = []
        records = size = pending = 0
        async with PartsUnderWay() as parts:
            async for staged in self._read(stages, now_ms):
                records += staged.records
                size += len(staged.batch)
                if staged.is_later:
                    later.take(staged.topic, staged.partition, staged.batch)
                    continue
                if pending + len(staged.batch) > self._limits.copy_bytes_max and appends:
                    await parts.take(self._copy_part(name, identity, appends))
                    appends, pending = [], 0
                sequence = sequences.get(staged.log, 0)
                join_transaction(staged.batch, *identity, sequence)
                sequences[staged.log] = (sequence + staged.records) & SEQUENCE_MASK
                appends.append(Append(staged.log, memoryview(staged.batch), is_keyed=staged.is_keyed))
                pending += len(staged.batch)
            if appends:
                await parts.take(self._copy_part(name, identity, appends))
        return Copied(records, size)

    def _copy_part(self, name: str, identity: Identity, appends: Sequence[Append]) -> Answer[list[CommitResult]]:
        admitted = [self._transactions.commit_for(name, identity, append, implicitly=True) for append in appends]
        part = Commit(appends, state=[mutation for commit in admitted for mutation in commit.state])

        def confirm(answer: Answer[list[CommitResult]]) -> None:
            # In the order of the commits, also when the caller has failed meanwhile.
            if answer.error is None and not isinstance(answer.result()[0], MainstemError):
                self._transactions.confirm(name, part)

        under_way = self._engine.commit([part])
        under_way.on_done(confirm)
        return under_way

    async def _commit_alone(self, commit: Commit) -> CommitResult:
        (result,) = await self._engine.commit([commit])
        return result

    async def _commit(self, commit: Commit, commit_by: CommitBy) -> None:
        result = await commit_by(commit)
        if isinstance(result, MainstemError):
            raise result

    async def _read(self, stages: Mapping[Stage, int], now_ms: int) -> AsyncIterator[Staged]:
        for stage, end in stages.items():
            label: Label | None = None
            offset = 0
            while offset < end:
                # What follows is on its way while this is dealt with: the log reads ahead.
                read = await self._engine.read(stage.log, offset, self._limits.read_bytes, ReadHint.CATCH_UP)
                if not read.batches:
                    raise CorruptData("a stage", offset, f"it ends at {offset}, not at {end}", (stage.log,))
                offset = read.next_offset
                # Copied, because they are written into: the buffers may be those of other readers, too.
                batches = [
                    bytearray(memoryview(buffer)[position : position + size])
                    for buffer in read.batches
                    for position, size in batches_in(buffer)
                ]
                del read
                for batch in batches:
                    if label is None:
                        label = _decode_label(decode_records(batch)[0].value or b"")
                    else:
                        yield self._direct(label, batch, now_ms)
                        label = None

    def _direct(self, label: Label, batch: bytearray, now_ms: int) -> Staged:
        topic = self._topics.get(UUID(bytes=label.topic))
        if topic is None:
            raise UnknownTopic(f"topic {label.name} was deleted after rows for it were staged; run the batch again")
        if topic.is_stamped and not label.is_later:
            stamp_log_append_time(batch, now_ms)
        return Staged(topic, label.partition, batch, label.is_later, label.is_keyed)
