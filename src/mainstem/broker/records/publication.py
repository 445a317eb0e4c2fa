"""Publishing records to a topic: all of a request in one commit, those that are due later included."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mainstem.broker.clock import Clock
from mainstem.broker.heavy_work import HeavyWork
from mainstem.broker.intake import Intake
from mainstem.broker.records.once import Once, OnceEntry, OnceKey, Position
from mainstem.broker.schemas.validation import check_record_schema
from mainstem.coordination.catalog.partitioning import partition_of
from mainstem.coordination.schedules.scheduled_record import Letter, Target
from mainstem.model.errors import BatchTooLarge, KeyRequired, MainstemError, MisdatedBatch
from mainstem.storage.contract import Append, Commit, Committed, Engine, Mutation
from mainstem.wire.record_batch import Headers, encode_batch, encode_headers, stamp_log_append_time

if TYPE_CHECKING:
    from mainstem.broker.schedules.additions import Additions
    from mainstem.broker.schedules.schedules import Schedules
    from mainstem.coordination.catalog.catalog import Topic

BATCH_BYTES = 512 << 10
"""A batch ends with the record that makes it larger."""
ENCODED_AT_ONCE = 500
"""Records that the loop encodes itself; a thread encodes more."""
RECORD_OVERHEAD_BYTES = 64


class NewRecord(NamedTuple):
    """A record to be published."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int = -1
    """-1: by the key, or any."""
    time_ms: int = -1
    """-1: now."""
    due_ms: int | None = None
    """Publish it then."""


class Published(NamedTuple):
    """Where each record went."""

    positions: list[Position]
    is_repeated: bool = False
    """Whether it was published by an earlier request of the same key."""


class Sealed(NamedTuple):
    """The batches of a request, and which of its records each has."""

    appends: list[Append]
    members: list[list[int]]


class Publications:
    """To all topics."""

    def __init__(
        self, engine: Engine, clock: Clock, schedules: Schedules, intake: Intake, heavy_work: HeavyWork, once: Once
    ) -> None:
        self._engine = engine
        self.commit = engine.commit
        """Who wants to know of what is published stands in between."""
        self._clock = clock
        self._schedules = schedules
        self._intake = intake
        self._heavy_work = heavy_work
        self.once = once
        self._turn = 0

    async def publish(self, topic: Topic, records: Sequence[NewRecord], once: OnceKey | None = None) -> Published:
        """All or nothing, durable when answered.

        Raises KeyReused, BatchTooLarge, KeyRequired, MisdatedBatch, DueTimeTooFar, and what the engine refuses with.
        """
        now_ms = self._clock.now_ms()
        if once is not None:
            found = self.once.find(once, now_ms)
            if isinstance(found, OnceEntry):
                return Published(found.positions or [Position(-1, -1)] * len(records), is_repeated=True)
            if found is not None:
                return Published(await found, is_repeated=True)
        places = self._place(topic, records, now_ms)
        state = [] if once is None else self.once.begin(once, now_ms)
        try:
            positions = await self._commit(topic, records, places, now_ms, state)
        except BaseException as error:
            if once is not None:
                self.once.failed(once, error)
            raise
        if once is not None:
            self.once.made(once, now_ms, state, positions)
        return Published(positions)

    def _place(self, topic: Topic, records: Sequence[NewRecord], now_ms: int) -> list[int]:
        """The partition of each record. Raises what the topic does not take."""
        self._turn += 1
        anywhere = self._turn % len(topic.logs)
        places: list[int] = []
        for number, record in enumerate(records):
            check_record(topic, record, number, now_ms)
            partition = record.partition
            if partition < 0:
                partition = anywhere if record.key is None else partition_of(record.key, len(topic.logs))
            places.append(partition)
        return places

    async def _commit(
        self, topic: Topic, records: Sequence[NewRecord], places: list[int], now_ms: int, state: list[Mutation]
    ) -> list[Position]:
        await self._wait_for_room()
        job = functools.partial(seal, topic, records, places, now_ms)
        sealed = await self._heavy_work.run(job) if len(records) > ENCODED_AT_ONCE else job()
        later = [number for number, record in enumerate(records) if record.due_ms is not None]
        additions = self._schedules.additions(()) if later else None
        positions = [Position(place, -1) for place in places]
        for number in later:
            record = records[number]
            assert additions is not None
            assert record.due_ms is not None
            try:
                record_id = self._schedules.put_in(additions, _letter(topic, record, now_ms), record.due_ms)
            except MainstemError as error:
                additions.resolved(error)
                raise
            positions[number] = Position(places[number], -1, record_id.hex())
        bases = await self._write(sealed.appends, state, additions)
        for base, members in zip(bases, sealed.members, strict=True):
            for offset, number in enumerate(members, base):
                positions[number] = Position(places[number], offset)
        return positions

    async def _write(self, appends: list[Append], state: list[Mutation], additions: Additions | None) -> list[int]:
        if additions is None:
            (result,) = await self.commit([Commit(appends, state=state)])
            if not isinstance(result, Committed):
                raise result
            return list(result.bases)
        more = additions.seal()
        commit = Commit([*appends, *more.appends], state=[*state, *more.state])
        outcome: Committed | MainstemError
        try:
            (outcome,) = await self.commit([commit])
        except MainstemError as error:
            outcome = error
        if not isinstance(outcome, Committed):
            additions.resolved(outcome)
            raise outcome
        additions.resolved(outcome.bases[len(appends) :])
        return list(outcome.bases[: len(appends)])

    async def _wait_for_room(self) -> None:
        if self._intake.is_pressed:
            relieved = asyncio.Event()
            self._intake.when_relieved(relieved.set)
            await relieved.wait()


def check_record(topic: Topic, record: NewRecord, number: int, now_ms: int) -> None:
    """Raises what a topic does not take: KeyRequired, MisdatedBatch, BatchTooLarge, UnregisteredSchema."""
    check_record_schema(topic, record.key, record.value, number)
    if topic.is_compacted and record.key is None:
        raise KeyRequired(f"topic {topic.name} is compacted by key and takes no record without one", [number])
    if record.time_ms >= 0:
        ahead, behind = topic.after_max_ms, topic.before_max_ms
        if ahead is not None and record.time_ms - now_ms > ahead:
            raise MisdatedBatch(
                f"a record is dated {record.time_ms}, more than {ahead} ms ahead of our clock", [number]
            )
        if behind is not None and now_ms - record.time_ms > behind:
            raise MisdatedBatch(f"a record is dated {record.time_ms}, more than {behind} ms behind our clock", [number])
    size = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
    if size > topic.batch_bytes_max:
        raise BatchTooLarge(f"a record of {size} bytes; topic {topic.name} takes {topic.batch_bytes_max}")


def seal(topic: Topic, records: Sequence[NewRecord], places: Sequence[int], now_ms: int) -> Sealed:
    """Batches of what is published at once, by partition."""
    sealed = Sealed([], [])
    by_partition: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    size_max = min(BATCH_BYTES, topic.batch_bytes_max)
    for number, (record, place) in enumerate(zip(records, places, strict=True)):
        if record.due_ms is not None:
            continue
        size = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
        size += sum(len(name) * 4 + len(content or b"") + 10 for name, content in record.headers)
        if sizes.get(place, 0) + size > size_max and by_partition.get(place):
            _end_batch(sealed, topic, records, place, by_partition.pop(place), now_ms)
            sizes[place] = 0
        by_partition.setdefault(place, []).append(number)
        sizes[place] = sizes.get(place, 0) + size
    for place, numbers in by_partition.items():
        _end_batch(sealed, topic, records, place, numbers, now_ms)
    return sealed


def _end_batch(
    sealed: Sealed, topic: Topic, records: Sequence[NewRecord], place: int, numbers: list[int], now_ms: int
) -> None:
    batch = encode_batch(
        (
            (offset, now_ms if record.time_ms < 0 else record.time_ms, record.key, record.value, record.headers)
            for offset, record in enumerate(records[number] for number in numbers)
        ),
        compression=topic.codec or 0,
    )
    if topic.is_stamped:
        stamp_log_append_time(batch, now_ms)
    sealed.appends.append(Append(topic.logs[place], batch, is_keyed=topic.is_compacted))
    sealed.members.append(numbers)


def _letter(topic: Topic, record: NewRecord, now_ms: int) -> Letter:
    target = Target(topic.namespace, topic=topic.name, partition=record.partition)
    headers = encode_headers(record.headers)
    return Letter(target, now_ms, headers, record.value, record.key, timestamp_ms=record.time_ms)
