"""Moves records: to their targets when they are due, and from coarse buckets to finer ones before.

One task at a time does it, step by step, and only while there is something to do; between times a timer waits. Every step is
one commit, so that a record is in exactly one place whenever the process ends.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mainstem.broker.clock import Clock, Timer
from mainstem.broker.schedules.additions import Added, Additions
from mainstem.broker.schedules.delivery import Delivery
from mainstem.broker.schedules.reading import records_in
from mainstem.broker.schedules.window import DueWindow, Waiting
from mainstem.coordination.schedules.errors import DueTimeTooFar
from mainstem.coordination.schedules.schedule import Bucket, ScheduleBook, Span, span_for
from mainstem.coordination.schedules.scheduled_record import Letter, decode_letter, encode_letter, make_id
from mainstem.model.errors import EngineClosed, MainstemError, PeerError
from mainstem.model.scheduling import DUE_MS_MAX
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Commit, CommitResult, Engine, ReadHint
from mainstem.wire.record_batch import Record

log = logging.getLogger(__name__)

LOAD_AHEAD_MS = 2_000
"""So long before its time a bucket is taken into memory."""
MOVE_RECORDS_MAX = 500
MOVE_BYTES_MAX = 1 << 20
"""Of one commit that moves what is due."""
SWEEP_BYTES = 256 << 10
"""Of a bucket read at a time."""
SWEEP_PAUSE_MS = 20
"""Between two passes over a bucket that does not fit into memory."""
RETRY_PAUSE_S = 1.0
"""After storage refused."""


class _Step(NamedTuple):
    """Records of a bucket, sorted out."""

    due: list[Waiting]
    later: list[Record]


class Mover:
    """What is due, and what will be."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        book: ScheduleBook,
        delivery: Delivery,
        random: Callable[[int], bytes],
        window: DueWindow,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._book = book
        self._delivery = delivery
        self._random = random
        self._window = window
        self._loaded: dict[Bucket, int] = {}
        """Buckets in memory: records from this offset on are told by who adds them."""
        self._oversized: dict[Bucket, int] = {}
        """Buckets of level 0 that do not fit into memory, and when to look at them again."""
        self._positions: dict[Bucket, int] = {}
        """How far the pass over a bucket has come."""
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._is_timer_stale = False
        """Whether there are buckets that the timer does not know of."""
        self._paused_until = 0.0
        self.moved_total = 0
        self.dropped_total = 0
        """Records that no target would take."""
        self.late_ms_max = 0
        """The longest that a record was moved after its time, while it was in memory."""

    # Buckets

    def bucket(self, span: Span) -> Bucket:
        """The bucket of a stretch of time, made if there is none."""
        bucket = self._book.buckets.get(span)
        if bucket is None:
            bucket, change = self._book.open_bucket(span)
            answer = self._engine.commit([Commit(changes=change.logs, state=change.state)])
            answer.on_done(functools.partial(self._opened, bucket))
            self._is_timer_stale = True
            if not span.level and span.start_ms - LOAD_AHEAD_MS <= self._clock.now_ms():
                self._loaded[bucket] = 0
        return bucket

    def put_in(self, additions: Additions, letter: Letter, due_ms: int) -> tuple[bytes, int]:
        """Add a record to the bucket of its time; answers its id and size. Raises DueTimeTooFar."""
        now_ms = self._clock.now_ms()
        due_ms = max(due_ms, now_ms)
        if due_ms > DUE_MS_MAX:
            raise DueTimeTooFar(f"{due_ms} ms is later than {DUE_MS_MAX} ms")
        record_id = make_id(due_ms, self._random(8))
        encoded = encode_letter(letter)
        additions.add(self.bucket(span_for(due_ms, now_ms)), record_id, encoded)
        return record_id, len(encoded)

    async def forget(self, *buckets: Bucket) -> None:
        """A commit was refused: what is in memory of them may not be all, and they are read again.

        What was marked back is stored so: another commit may have stored it as gone in the meantime.
        """
        for bucket in buckets:
            self._loaded.pop(bucket, None)
            self._positions.pop(bucket, None)
        state = [mutation for bucket in buckets for mutation in bucket.take_changes()]
        await self._engine.commit([Commit(state=state)])
        self.look()

    def _opened(self, bucket: Bucket, answer: Answer[list[CommitResult]]) -> None:
        outcome = answer.error or answer.result()[0]
        if isinstance(outcome, BaseException):
            log.warning("a bucket of the schedule could not be made: %s", outcome)
            self._book.drop(bucket)
            self._loaded.pop(bucket, None)

    def added(self, records: list[Added]) -> None:
        """These are durable in their buckets now."""
        for bucket, offset, due_ms, letter in records:
            known_to = self._loaded.get(bucket)
            if known_to is not None and offset >= known_to:
                self._keep(Waiting(due_ms, bucket.log, offset, letter, bucket))
        due = self._window.next_due_ms
        if self._timer is None or self._is_timer_stale or (due is not None and due < self._timer_ms):
            self.look()

    def _keep(self, waiting: Waiting) -> None:
        if waiting.bucket not in self._oversized and not self._window.push(waiting):
            self._oversized[waiting.bucket] = waiting.bucket.span.start_ms

    # Time

    def look(self) -> None:
        """Do what is due, or see to it that it is done when it is."""
        if self._task is not None:
            return
        self._is_timer_stale = False
        wait_ms = self._next_ms() - self._clock.now_ms()
        pause_s = self._paused_until - self._clock.monotonic()
        if wait_ms <= 0 and pause_s <= 0:
            self._stop_timer()
            self._task = asyncio.get_running_loop().create_task(self._work())
        else:
            self._arm(max(wait_ms / 1000, pause_s))

    def stop(self) -> None:
        """Nothing is moved any more."""
        self._stop_timer()
        if self._task is not None:
            self._task.cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, wait_s: float) -> None:
        # A clock that is set, or a year ahead: once an hour is often enough to look again.
        wait_s = min(wait_s, 3_600)
        due_ms = self._clock.now_ms() + int(wait_s * 1000)
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self._clock.call_later(wait_s, self._timer_called)

    def _timer_called(self) -> None:
        self._timer = None
        self.look()

    def _next_ms(self) -> int:
        """When there is something to do."""
        times = [self._event_ms(bucket) for bucket in self._book.buckets.values()]
        due_ms = self._window.next_due_ms
        if due_ms is not None:
            times.append(due_ms)
        return min(times, default=1 << 62)

    def _event_ms(self, bucket: Bucket) -> int:
        """When something is to be done with a bucket."""
        span = bucket.span
        if bucket in self._positions:
            return 0
        if bucket.is_empty:
            return span.end_ms if not span.level else max(span.opens_ms, 0)
        if span.level:
            return span.opens_ms if bucket.pending else 1 << 62
        if bucket in self._oversized:
            return self._oversized[bucket]
        return 1 << 62 if bucket in self._loaded else span.start_ms - LOAD_AHEAD_MS

    # Work

    async def _work(self) -> None:
        try:
            while await self._round():
                pass
        except EngineClosed:
            return
        except MainstemError as error:
            log.warning("the schedule waits: %s", error)
            self._paused_until = self._clock.monotonic() + RETRY_PAUSE_S
        finally:
            self._task = None
        self.look()

    async def _round(self) -> bool:
        """Whatever is due now, a step of each; answers whether there was anything."""
        now_ms = self._clock.now_ms()
        due = self._window.take_due(now_ms, MOVE_RECORDS_MAX, MOVE_BYTES_MAX)
        if due:
            self.late_ms_max = max(self.late_ms_max, now_ms - due[0].due_ms)
            await self._commit(due, {})
        waiting = [bucket for bucket in self._book.buckets.values() if self._event_ms(bucket) <= now_ms]
        if waiting:
            await self._step(min(waiting, key=lambda bucket: bucket.span.start_ms))
        return bool(due or waiting)

    async def _step(self, bucket: Bucket) -> None:
        if bucket.is_empty and bucket not in self._positions:
            await self._close(bucket)
            return
        position = self._positions.setdefault(bucket, bucket.gone.first_absent(0))
        result = await self._engine.read(bucket.log, position, SWEEP_BYTES, ReadHint.CATCH_UP)
        step = self._sort_out(bucket, position, records_in(result.batches))
        if step.due or step.later:
            await self._commit(step.due, {bucket: step.later})
        position = max(position, result.next_offset)
        self._positions[bucket] = position
        if position >= max(bucket.end, result.end):
            self._end_pass(bucket, position)

    def _sort_out(self, bucket: Bucket, position: int, records: Iterable[Record]) -> _Step:
        """What to do with each record; those that are to leave the bucket are marked gone."""
        step = _Step([], [])
        now_ms = self._clock.now_ms()
        is_held = not bucket.span.level and bucket not in self._oversized
        for record in records:
            if record.offset < position or record.offset in bucket.gone:
                continue
            assert record.value is not None
            waiting = Waiting(record.timestamp_ms, bucket.log, record.offset, record.value, bucket)
            if is_held:
                self._keep(waiting)
            elif record.timestamp_ms <= now_ms:
                bucket.mark_gone((record.offset,))
                step.due.append(waiting)
            elif bucket.span.level:
                bucket.mark_gone((record.offset,))
                step.later.append(record)
        return step

    def _end_pass(self, bucket: Bucket, position: int) -> None:
        del self._positions[bucket]
        if bucket in self._oversized:
            now_ms = self._clock.now_ms()
            self._oversized[bucket] = max(bucket.span.start_ms, now_ms + SWEEP_PAUSE_MS)
        if not bucket.span.level:
            self._loaded.setdefault(bucket, position)

    async def _commit(self, due: list[Waiting], later: dict[Bucket, list[Record]]) -> None:
        """Deliver these, hand those on to finer buckets, in one commit."""
        additions = Additions(self.added)
        for waiting in due:
            additions.leave(waiting.bucket, (waiting.offset,))
        now_ms = self._clock.now_ms()
        for bucket, records in later.items():
            additions.leave(bucket, [record.offset for record in records])
            for record in records:
                assert record.key is not None
                assert record.value is not None
                additions.add(self.bucket(span_for(record.timestamp_ms, now_ms)), record.key, record.value)
        try:
            letters = [decode_letter(waiting.letter) for waiting in due]
            await self._delivery.deliver(letters, additions, functools.partial(self.put_in, additions))
        except MainstemError as error:
            if isinstance(error, PeerError) and due:
                await self._commit_parts(due, later, error)
                return
            await self.forget(*({waiting.bucket for waiting in due} | set(later)))
            raise
        self.moved_total += len(due)

    async def _commit_parts(self, due: list[Waiting], later: dict[Bucket, list[Record]], error: PeerError) -> None:
        """One of them cannot be: find it, and go on without it.

        What is not part of a commit must not be marked when that is made: it would be stored as gone.
        """
        if len(due) == 1:
            for waiting in self._mark(due):
                target = decode_letter(waiting.letter).target
                log.warning("a scheduled record is dropped: %s: %s", target.describe(), error)
                self.dropped_total += 1
                additions = Additions(self.added)
                additions.leave(waiting.bucket, (waiting.offset,))
                await self._delivery.deliver([], additions, functools.partial(self.put_in, additions))
        else:
            half = len(due) // 2
            for part in (due[:half], due[half:]):
                marked = self._mark(part)
                if marked:
                    await self._commit(marked, {})
        for bucket, records in later.items():
            left = [record for record in records if record.offset not in bucket.gone]
            if left:
                bucket.mark_gone([record.offset for record in left])
                await self._commit([], {bucket: left})

    def _mark(self, due: list[Waiting]) -> list[Waiting]:
        """Those that were not cancelled in the meantime, marked gone."""
        left = [waiting for waiting in due if waiting.offset not in waiting.bucket.gone]
        for waiting in left:
            waiting.bucket.mark_gone((waiting.offset,))
        return left

    async def _close(self, bucket: Bucket) -> None:
        change = self._book.close_bucket(bucket)
        self._loaded.pop(bucket, None)
        self._oversized.pop(bucket, None)
        (outcome,) = await self._engine.commit([Commit(changes=change.logs, state=change.state)])
        if isinstance(outcome, MainstemError):
            # The log stays, with nothing in it; it is closed after the next start.
            raise outcome
