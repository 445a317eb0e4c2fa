"""The order of commits, durability and answers. Every engine with a ledger of its own holds one Sequencer.

    commit --> sequence into the open group --> GroupStore.submit --> durable --> show, tell watchers, answer

One group is being made durable at a time; what arrives meanwhile is the next one. While many callers wait, that one is submitted
as soon as it holds half of them, so that the disk finds it when it is done with the first. How a group becomes durable, and where
its batches are read from, is the business of the engine's GroupStore.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mainstem.model.errors import EngineClosed, EngineFailed, MainstemError, Overloaded, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.answer_core import resolve_all
from mainstem.storage.contract import (
    Commit,
    CommitResult,
    Fence,
    Lease,
    LogChange,
    Mutation,
    StateSnapshot,
    TrimLog,
    WatchCallback,
)
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.sequencer import engine_scopes as scopes
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.entries import StateItem
from mainstem.storage.sequencer.group_store import GroupStore
from mainstem.storage.sequencer.ledger import Ledger
from mainstem.storage.sequencer.limits import SequencerLimits
from mainstem.storage.sequencer.log_state import FLUSH_SYNC, LogState
from mainstem.storage.sequencer.producers import active_producers
from mainstem.storage.sequencer.watches import Watches, WatchHandle

PATIENCE_SECONDS_MAX = 0.01
"""How long a group of patient callers waits at most for the sender that was answered last. It never waits for longer than
half of a sync: that is all that it can lose, and a whole one is what it can save."""
_NO_HALF = 1 << 30


class Sequencer:
    """The ledger, the groups of commits under way, their answers, and the watches of one engine."""

    def __init__(
        self,
        runtime: Runtime,
        ledger: Ledger,
        *,
        group_bytes_max: int,
        pending_bytes_max: int,
        limits: SequencerLimits = SequencerLimits(),  # noqa: B008  # frozen
    ) -> None:
        self._runtime = runtime
        self._loop = runtime.loop
        self.ledger = ledger
        self.watches = Watches(ledger.visible.get)
        self._group_bytes_max = group_bytes_max
        self._pending_bytes_max = pending_bytes_max
        self._halved_callers_min = limits.halved_callers_min
        self._half_entries_max = limits.half_entries_max
        self._open = CommitGroup()
        self._full: deque[CommitGroup] = deque()
        """Groups that reached their size while another was being written."""
        self._under_way: list[CommitGroup] = []
        """Groups that were submitted, in order."""
        self._under_way_max = limits.under_way_max
        self._callers = 0
        """How many callers wait for an answer, as a maximum that declines slowly."""
        self._half_answers = _NO_HALF
        """How many answers make a group worth submitting behind another."""
        self._scheduled = False
        self._waiting_since = 0.0
        """When the first commit of the open group found the disk at rest."""
        self._submitted_at = 0.0
        self._group_seconds = 0.0
        """How long the last group took to become durable."""
        self._answered_at = -PATIENCE_SECONDS_MAX
        """When a caller that had sent batches was last answered."""
        self._is_patient = False
        """Whether a timer runs for a group whose callers are patient."""
        self._submitted_bytes = 0
        self._is_behind = False
        """Whether so much waits to be merged that callers should hold back."""
        self._waiting_below: list[tuple[int, Callable[[], None]]] = []
        self._leases: dict[str, Lease] = {}
        self.is_closing = False
        self.failure: EngineFailed | None = None
        self.refusal: MainstemError | None = None
        """Why every commit is refused at present, if it is: failed, closed, or merging is too far behind."""

    def attach(self, store: GroupStore) -> None:
        """Submit groups to this store from now on. Called once, before the first commit."""
        self._store: GroupStore = store
        self.ledger.on_trimmed = self._log_trimmed
        self.ledger.on_deleted = self._log_deleted

    # The contract

    def is_above(self, pending_bytes: int) -> bool:
        """Whether more than these bytes wait to be durable, or merging is too far behind."""
        return self._is_behind or self._submitted_bytes + self._open.bytes > pending_bytes

    def when_below(self, pending_bytes: int, callback: Callable[[], None]) -> None:
        """Call back once, when that is no longer so."""
        if self.is_above(pending_bytes):
            self._waiting_below.append((pending_bytes, callback))
        else:
            self._runtime.call_soon(callback)

    def _relieve(self) -> None:
        """Call those back for whom little enough waits by now."""
        waiting, self._waiting_below = self._waiting_below, []
        for pending_bytes, callback in waiting:
            if self.is_above(pending_bytes):
                self._waiting_below.append((pending_bytes, callback))
            else:
                self._runtime.call_soon(callback)

    def commit(self, commits: Sequence[Commit], patient: bool = False) -> Answer[list[CommitResult]]:
        """Sequence each Commit, or refuse it; answer when the group is durable."""
        if self.refusal is not None:
            return Answer.failed(self.refusal)
        if self._submitted_bytes + self._open.bytes > self._pending_bytes_max:
            return Answer.failed(Overloaded(f"more than {self._pending_bytes_max} bytes wait to be written"))
        results: list[CommitResult] = []
        index = 0
        count = len(commits)
        while index < count:
            group = self._open
            index = self.ledger.sequence_until_full(commits, index, group, self._group_bytes_max, results)
            if group.bytes >= self._group_bytes_max:
                self._submitted_bytes += group.bytes
                self._full.append(group)
                self._open = CommitGroup()
                self._schedule()
        if not patient:
            self._open.is_urgent = True
        answer: Answer[list[CommitResult]] = Answer()
        answer.loop = self._loop
        self.answer_when_durable(answer, results)
        return answer

    def watch(self, callback: WatchCallback) -> WatchHandle:
        """Be told when logs grow."""
        return self.watches.open(callback)

    def load(self, scope: str) -> Answer[StateSnapshot]:
        """A copy of a scope, answered when all that is in it is durable."""
        if self.failure is not None:
            return Answer.failed(self.failure)
        answer: Answer[StateSnapshot] = Answer()
        if scope.startswith(scopes.ACTIVE_PRODUCERS):
            state = self.ledger.logs.get(int(scope.removeprefix(scopes.ACTIVE_PRODUCERS)))
            entries = {} if state is None else active_producers(state)
        else:
            entries = dict(self.ledger.scopes.get(scope, {}))
        self.answer_when_durable(answer, StateSnapshot(entries))
        return answer

    def lease(self, role: str, ttl_ms: int, renew: Lease | None = None) -> Answer[Lease | None]:
        """One process: a role is held until released by time, and its epoch is state."""
        if (end := self.end) is not None:
            return Answer.failed(end)
        now = self._runtime.now_ms()
        held = self._leases.get(role)
        if renew is not None:
            if held is None or held.epoch != renew.epoch or renew.role != role:
                return Answer.of(None)
            self._leases[role] = renewed = Lease(role, held.epoch, now + ttl_ms)
            renewal: Answer[Lease | None] = Answer()
            self.answer_when_durable(renewal, renewed)
            return renewal
        if held is not None and held.expires_ms > now:
            return Answer.of(None)
        key = role.encode()
        value = self.ledger.scopes.get(scopes.LEASES, {}).get(key)
        epoch = 1 + (0 if value is None else scopes.decode_number(value))
        self.ledger.mutate(scopes.LEASES, key, scopes.encode_number(epoch), self._open)
        self._open.rank = max(self._open.rank, self.ledger.default_rank)
        self._leases[role] = lease = Lease(role, epoch, now + ttl_ms)
        answer: Answer[Lease | None] = Answer()
        self.answer_when_durable(answer, lease)
        return answer

    def alter(
        self, changes: Sequence[LogChange], state: Sequence[Mutation] = (), fences: Sequence[Fence] = ()
    ) -> Answer[None]:
        """One Commit of changes; its refusal is raised."""
        answer: Answer[None] = Answer()

        def finish(outcome: Answer[list[CommitResult]]) -> None:
            error = outcome.error
            if error is None:
                result = outcome.result()[0]
                error = result if isinstance(result, MainstemError) else None
            if error is None:
                answer.resolve(None)
            else:
                answer.fail(error)

        self.commit([Commit(changes=changes, state=state, fences=fences)]).on_done(finish)
        return answer

    def trim(self, log: int, before: int) -> Answer[int]:
        """Move the start of a log."""
        answer: Answer[int] = Answer()

        def finish(outcome: Answer[None]) -> None:
            if outcome.error is not None:
                answer.fail(outcome.error)
            else:
                state = self.ledger.visible.get(log)
                answer.resolve(state.visible_start) if state else answer.fail(UnknownLog(f"log {log}"))

        self.alter([TrimLog(log, before)]).on_done(finish)
        return answer

    # For the engine

    @property
    def end(self) -> MainstemError | None:
        """Why nothing can be begun any more: the engine has failed or is closed. None while it works."""
        if self.failure is not None:
            return self.failure
        return EngineClosed("the engine is closed") if self.is_closing else None

    @property
    def pending_bytes(self) -> int:
        """Bytes on their way to the disk."""
        return self._submitted_bytes + self._open.bytes

    @property
    def is_idle(self) -> bool:
        """Whether no group is under way, and none waits to be submitted."""
        return not self._under_way and self._open.empty and not self._full

    def commit_own(self, items: list[StateItem]) -> Answer[None]:
        """Change the engine's own state, synced whatever the policy: files depend on it."""
        if (end := self.end) is not None:
            return Answer.failed(end)
        for scope, key, value in items:
            self.ledger.mutate(scope, key, value, self._open)
        self._open.rank = FLUSH_SYNC
        answer: Answer[None] = Answer()
        self.answer_when_durable(answer, None)
        return answer

    def set_backlog(self, *, is_behind: bool, refusal: MainstemError | None) -> None:
        """Have callers hold back while merging is behind, and refuse commits while it is too far behind."""
        if self.end is not None:
            return
        self._is_behind = is_behind
        if self._waiting_below and not is_behind:
            self._relieve()
        self.refusal = refusal

    # Groups

    def answer_when_durable(self, answer: Answer[Any], value: object) -> None:
        """Answer when all that was sequenced so far is durable."""
        group = self._open
        if group.entries or group.state or group.refs:
            group.answers.append((answer, value))
            self._schedule()
        elif self._full:
            self._full[-1].answers.append((answer, value))
        elif self._under_way:
            self._under_way[-1].answers.append((answer, value))
        else:
            answer.resolve(value)

    def _schedule(self) -> None:
        """Have the open group written after this turn; within it, when the disk has rested for as long as a group takes.

        So what arrives in one short turn is one group, and what many callers bring in a long one is written in parts
        while the rest of them are still heard.
        """
        if self._full or self._has_half():
            self._flush()
        elif self._under_way:
            return
        elif not self._scheduled:
            self._scheduled = True
            self._waiting_since = self._runtime.monotonic()
            self._runtime.call_soon(self._flush_scheduled)
        elif self._runtime.monotonic() - self._waiting_since > self._group_seconds:
            self._flush()

    def _flush_scheduled(self) -> None:
        self._scheduled = False
        self._flush()

    def _flush(self) -> None:
        behind = len(self._under_way)
        if behind >= self._under_way_max or self.failure is not None:
            return
        if self._full:
            group = self._full.popleft()
        elif behind and not self._has_half():
            return
        elif not self._open.empty:
            if not self._open.is_urgent and self._waits_for_sender():
                return
            group = self._open
            self._submitted_bytes += group.bytes
            self._open = CommitGroup()
        else:
            return
        self.begin(group)

    def _waits_for_sender(self) -> bool:
        """Whether the open group waits, because a sender that was just answered may come again.

        A sender that waits for each answer sends its next record in the moment in which a consumer acknowledges the last
        one. If the acknowledgement went first, the record would wait for its sync: two syncs for each record.
        """
        if self.is_closing:
            return False
        patience = min(self._group_seconds / 2, PATIENCE_SECONDS_MAX)
        seconds = self._answered_at + patience - self._runtime.monotonic()
        if seconds <= 0:
            return False
        if not self._is_patient:
            self._is_patient = True
            self._runtime.call_later(seconds, self._end_patience)
        return True

    def _end_patience(self) -> None:
        self._is_patient = False
        self._flush()

    def begin(self, group: CommitGroup) -> None:
        """Submit the group: it is under way from now on."""
        if not self._under_way:
            self._submitted_at = self._runtime.monotonic()
        self._under_way.append(group)
        self._store.submit(group)

    def begin_after(self, wait: Callable[[Callable[[], None]], None], group: CommitGroup) -> None:
        """The group is under way, and is submitted when `wait` calls back; no other group is submitted before it."""
        self._under_way.append(group)
        under_way_max, self._under_way_max = self._under_way_max, 1

        def submit() -> None:
            self._under_way_max = under_way_max
            self._store.submit(group)

        wait(submit)

    def durable(self, group: CommitGroup) -> None:
        """The group is durable: show it, tell the watchers, answer, and go on with the next."""
        assert self._under_way[0] is group
        self._count_callers()
        del self._under_way[0]
        now = self._runtime.monotonic()
        self._group_seconds = now - self._submitted_at
        self._submitted_at = now
        self._submitted_bytes -= group.bytes
        if group.entries and group.is_urgent:
            self._answered_at = now
        # The next group goes to the disk before this one is answered, so that the disk does not wait for Python.
        self._flush()
        effects = group.effects
        # Created logs are shown before their batches, everything else after them: a stable offset may not move early.
        for effect in effects:
            effect()
        self._store.show(group)
        self.watches.tell()
        resolve_all(group.answers)
        if self._waiting_below:
            self._relieve()

    def _has_half(self) -> bool:
        """Whether the open group is worth submitting behind another."""
        group = self._open
        return len(group.answers) >= self._half_answers and len(group.entries) <= self._half_entries_max

    def _count_callers(self) -> None:
        """Find how many wait for an answer, and what is half of them.

        Callers that were answered and have not committed again do not wait just now, but will: so the number declines slowly.
        """
        answers = len(self._open.answers)
        for group in self._full:
            answers += len(group.answers)
        for group in self._under_way:
            answers += len(group.answers)
        self._callers = answers = max(answers, self._callers * 7 // 8)
        self._half_answers = _NO_HALF if answers < self._halved_callers_min else answers // 2

    def _log_trimmed(self, state: LogState) -> None:
        """The start of a log has moved, and with it perhaps its last stable offset."""
        if state.watchers is not None and state.transactions is not None:
            self.watches.note(state)
        self._store.log_trimmed(state)

    def _log_deleted(self, state: LogState) -> None:
        self.watches.note_deleted(state)
        self._store.log_deleted(state)

    def begin_closing(self) -> None:
        """From now on every commit is refused."""
        self.is_closing = True
        self._is_behind = False
        if self.failure is None:
            self.refusal = EngineClosed("the engine is closed")

    def fail(self, error: EngineFailed) -> None:
        """A write or a sync has failed: nothing that is pending will ever be acknowledged."""
        if self.failure is not None:
            return
        self.failure = self.refusal = error
        groups = [*self._under_way, *self._full, self._open]
        self._under_way = []
        self._full.clear()
        self._open = CommitGroup()
        self._submitted_bytes = 0
        self._is_behind = False
        for group in groups:
            for answer, _ in group.answers:
                answer.fail(error)
        self._relieve()
