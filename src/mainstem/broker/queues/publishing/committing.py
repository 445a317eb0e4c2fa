"""Drafts on their way to the disk: one for each turn of the event loop, cut, committed, told of, and tried again.

    draft --(end of the turn)--> engine.commit --> durable: into the windows, confirmed, delivered

While the engine has enough to do, drafts grow instead of multiplying: the same batching that group commit does, one level up.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mainstem.broker.clock import Clock, Timer
from mainstem.broker.intake import Intake
from mainstem.broker.queues.publishing.draft import Draft, TakeState
from mainstem.coordination.commit_addition import CommitAddition
from mainstem.model.errors import DiskError, EngineClosed, MainstemError, StorageFull, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import CommitResult, Committed, Engine, LogChange, Mutation
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.limits import QueueLimits
    from mainstem.broker.queues.queue import Queue, QueueLane

log = logging.getLogger(__name__)

WINDOW_BYTES_MAX = 8 << 20
"""Memory for ready messages of one lane; what is published beyond is read when it is wanted."""
FLIGHT_BYTES_MAX = 4 << 20
"""Drafts are committed together up to this size: when they are durable, all their messages are handed out in one turn."""
FLIGHTS_MAX = 2
"""Commits under way: one that the disk is at, one behind it."""
SETTLE_DELAY_S = 0.05
"""How long settled messages wait for a commit to ride on."""
FULL_PAUSE_S = 0.1
"""How often it is looked whether a full disk has room again."""

Done: TypeAlias = Callable[[Any, BaseException | None], None]
"""Called with the token, and with the reason if it did not happen."""


class _Flight(NamedTuple):
    """Drafts under way to the disk. Each has those to call back when it, and all before it, is durable."""

    drafts: list[Draft]


class Committing:
    """The draft of this turn, and the commits under way."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        intake: Intake,
        limits: QueueLimits,
        *,
        take_state: TakeState,
        on_arrival: Callable[[Iterable[QueueLane]], None],
        on_return: Callable[[Sequence[Message]], None],
    ) -> None:
        self._engine = engine
        self._clock = clock
        self.intake = intake
        self._draft_bytes_max = limits.draft_bytes_max
        self._take_state = take_state
        self._on_arrival = on_arrival
        self._on_return = on_return
        self._draft = Draft()
        self._cut: list[Draft] = []
        """Drafts of this turn that are complete."""
        self._flights: list[_Flight] = []
        self._fan: Any = None
        self._now_ms = 0
        """Of this turn; 0: not asked yet."""
        self.window_bytes_max = WINDOW_BYTES_MAX
        """What one lane may hold in memory, now: all have their share."""
        self._is_scheduled = False
        self._timer: Timer | None = None
        self.is_whole = False
        """Whether what is put belongs into one commit, whatever its size."""
        self._is_joining = False
        """Whether what is put belongs into the commit of what was added last."""
        self._relieved: list[tuple[Callable[[], None], Iterable[Queue]]] = []
        """Who waits, and for which queues."""
        self.is_full = False
        """Whether the disk is."""
        self._awaits_relief = False
        self.full_queues: set[Queue] = set()
        """Those whose publishers were told to wait."""

    # Settling, and what goes along

    def dirty(self, lane: QueueLane) -> None:
        """The lane's cursor has changed."""
        self._draft.dirty.add(lane)
        if not self._is_scheduled and self._timer is None:
            self._timer = self._clock.call_later(SETTLE_DELAY_S, self._flush_late)

    def add(self, addition: CommitAddition) -> None:
        """Commit this along with what was put so far. It may grow until it is sealed."""
        self._draft.additions.append(addition)
        self._schedule()

    def grow(self, size: int) -> None:
        """What was added has grown by `size` bytes, which may seal it."""
        self.intake.drafted_bytes += size
        self._draft.bytes += size
        if self._draft.bytes > self._draft_bytes_max:
            self._cut_draft()

    def change(self, change: LogChange) -> None:
        """Commit a change of a log along."""
        self._draft.changes.append(change)
        self._schedule()

    def mutate(self, state: Sequence[Mutation]) -> None:
        """Commit a change of state along."""
        self._draft.state += state
        self._schedule()

    async def wait_durable(self) -> None:
        """Until all that was put and settled so far is durable. Raises kinds of MainstemError."""
        answer: Answer[None] = Answer()
        self.when_durable(functools.partial(_finish, answer), None)
        await answer

    async def drain(self) -> None:
        """Commit all there is, and wait for it."""
        self.flush()
        if self._flights:
            await self.wait_durable()

    def when_durable(self, callback: Done, token: Any) -> None:
        """Call back, in order, when all that was put and settled so far is durable; not before the end of the turn."""
        if not self._draft.is_empty or not (self._cut or self._flights):
            last = self._draft
            self._schedule()
        else:
            last = self._cut[-1] if self._cut else self._flights[-1].drafts[-1]
        last.callbacks.append((callback, token))

    def _cut_draft(self) -> None:
        """What follows belongs into another commit."""
        if not (self._draft.is_empty or self.is_whole or self._is_joining):
            self._end_draft()
            self._schedule()

    def _end_draft(self) -> None:
        self._draft.seal(self._take_state)
        self._cut.append(self._draft)
        self._draft = Draft()
        self._fan = None

    # Committing

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_scheduled = False
        self._now_ms = 0
        if len(self._flights) < FLIGHTS_MAX:
            self._flush(FLIGHTS_MAX)

    def _flush_late(self) -> None:
        self._timer = None
        self._end_turn()

    def flush(self) -> None:
        """Commit what there is."""
        self._flush(None)

    def _flush(self, flights_max: int | None) -> None:
        """Commit what there is, as far as that many flights take it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._draft.is_empty:
            self._end_draft()
        while self._cut and (flights_max is None or len(self._flights) < flights_max):
            count = size = 0
            while count < len(self._cut) and size < FLIGHT_BYTES_MAX:
                size += self._cut[count].bytes
                count += 1
            drafts, self._cut = self._cut[:count], self._cut[count:]
            self.intake.drafted_bytes -= size
            self._commit(_Flight(drafts))
        callbacks, self._draft.callbacks = self._draft.callbacks, []
        if not callbacks:
            return
        if self._cut or self._flights:
            last = self._cut[-1] if self._cut else self._flights[-1].drafts[-1]
            last.callbacks += callbacks
        else:
            _call(callbacks, None)

    def _commit(self, flight: _Flight) -> None:
        self._flights.append(flight)
        commits = [draft.commit() for draft in flight.drafts]
        self._engine.commit(commits).on_done(functools.partial(self._done, flight))

    def _done(self, flight: _Flight, answer: Answer[list[CommitResult]]) -> None:
        self._flights.remove(flight)
        failure = answer.error
        results: Sequence[Any] = [failure] * len(flight.drafts) if failure is not None else answer.result()
        arrived: dict[QueueLane, None] = {}
        again: list[Draft] = []
        callbacks: list[tuple[Done, Any]] = []
        error: BaseException | None = None
        for draft, result in zip(flight.drafts, results, strict=True):
            callbacks += draft.callbacks
            if isinstance(result, Committed):
                draft.accept(result.bases, arrived, self.window_bytes_max)
            elif isinstance(result, UnknownLog) and draft.without_gone(self._take_state):
                again.append(draft)
            else:
                error = result
                self._refused(draft, result)
        if again:
            for draft in again:
                draft.callbacks = []
            again[-1].callbacks = callbacks
            self._commit(_Flight(again))
        else:
            _call(callbacks, error)
        if not self._draft.is_empty or self._cut or self._draft.callbacks:
            self._schedule()
        if arrived:
            self._on_arrival(arrived)
        self._relieve()

    def _refused(self, draft: Draft, error: BaseException) -> None:
        log.warning("a commit of %d batches to queues is refused: %s", len(draft.batches), error)
        for addition in draft.additions:
            addition.resolved(error if isinstance(error, MainstemError) else EngineClosed(str(error)))
        for batch in draft.batches:
            for lane in (batch.lane, *batch.refers):
                lane.queue.came(batch.count)
        there = [lane for lane in draft.dirty if not lane.is_gone]
        for lane in there:
            lane.cursor.change_all()
        if draft.laid_off:
            self._on_return([message for message in draft.laid_off if not message.lane.is_gone])
        if isinstance(error, StorageFull):
            self.is_full = True
            self._clock.call_later(FULL_PAUSE_S, self._try_again)
        if not isinstance(error, EngineClosed | DiskError):
            for lane in there:
                self.dirty(lane)

    def _try_again(self) -> None:
        if self._engine.is_full:  # who was let go would lose what it publishes next
            self._clock.call_later(FULL_PAUSE_S, self._try_again)
            return
        self.is_full = False
        self._relieve()

    # Back-pressure

    @property
    def is_pressed(self) -> bool:
        """Whether publishers wait: the disk is full, or too much waits for it."""
        return self.is_full or self.intake.is_pressed

    def not_full(self, queue: Queue) -> None:
        """A queue has room again, or is gone."""
        if queue in self.full_queues:
            self.full_queues.discard(queue)
            self._relieve()

    def when_relieved(self, callback: Callable[[], None], queues: Iterable[Queue] = ()) -> None:
        """Call back once, when who publishes to these queues may go on. More of them may be added meanwhile."""
        self._relieved.append((callback, queues))
        if not self.is_full:
            self._relieve_later()

    def _relieve(self) -> None:
        if not self._relieved or self.is_full:
            return
        if not self.intake.is_relieved:
            self._relieve_later()
            return
        waiting, self._relieved = self._relieved, []
        for callback, queues in waiting:
            if self.full_queues.isdisjoint(queues):
                callback()
            else:
                self._relieved.append((callback, queues))

    def _relieve_later(self) -> None:
        if not self._awaits_relief:
            self._awaits_relief = True
            self.intake.when_relieved(self._intake_relieved)

    def _intake_relieved(self) -> None:
        self._awaits_relief = False
        self._relieve()


def _finish(answer: Answer[None], _: Any, error: BaseException | None) -> None:
    if error is None:
        answer.resolve(None)
    else:
        answer.fail(error)


def _call(callbacks: Iterable[tuple[Done, Any]], error: BaseException | None) -> None:
    for callback, token in callbacks:
        try:
            callback(token, error)
        except Exception:
            # One caller's bug must not keep the others from their answers.
            log.exception("a callback failed")
