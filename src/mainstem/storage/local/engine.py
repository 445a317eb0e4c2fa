"""The engine on local disk: what the contract promises, put together from its parts.

commit -> Ledger (order, rules) -> WalWriter (one group, one sync) -> tails, cache, watchers, answers
read   -> Reader: cache | WAL files | runs
maintain -> Maintenance: WAL files -> runs, retention, compaction, space
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from operator import itemgetter

from mainstem.model.errors import EngineClosed, EngineFailed, Overloaded, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Budget,
    Found,
    MaintainReport,
    Place,
    ReadHint,
    ReadResult,
)
from mainstem.storage.local.directories import Directories, DirectoryLock, load_identity, lock_directory
from mainstem.storage.local.read.file_set import FileSet
from mainstem.storage.local.read.reader import Reader
from mainstem.storage.local.read.tail import TailCache, place_of, show_entries
from mainstem.storage.local.recovery import Recovered, Recovery, give_tails_back
from mainstem.storage.local.runs.stored_file import WalFile
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.local.upkeep.maintenance import Maintenance
from mainstem.storage.local.upkeep.merges import Merges
from mainstem.storage.local.upkeep.space import Space
from mainstem.storage.local.wal.file_jobs import FileJobs
from mainstem.storage.local.wal.writer import WalWriter
from mainstem.storage.runtime.disk import Disk
from mainstem.storage.runtime.runtime import Runtime, Timer
from mainstem.storage.sequencer import engine_scopes as scopes
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.entries import StateItem
from mainstem.storage.sequencer.ledger import Ledger
from mainstem.storage.sequencer.ledger_engine import UNDER_WAY_MAX, LedgerEngine
from mainstem.storage.sequencer.log_state import FLUSH_RANKS, FLUSH_SYNC, LogState
from mainstem.storage.sequencer.log_tail import Arrivals, LogTail

log_output = logging.getLogger("mainstem.storage")

CLOSE_MERGE_SECONDS_MAX = 2.0
"""How long an engine that closes waits for a merge."""

RECLAIM_SECONDS = 0.1
"""From the death of something to the look at it on a full disk: one look serves many deaths."""


class LocalEngine(LedgerEngine):
    """One node's log. Open it with `LocalEngine.open`."""

    def __init__(
        self,
        *,
        disk: Disk,
        runtime: Runtime,
        settings: EngineSettings,
        directories: Directories,
        lock: DirectoryLock | None,
        node: bytes,
        recovered: Recovered,
    ) -> None:
        ledger = Ledger(
            default_rank=FLUSH_RANKS[settings.flush],
            commit_bytes_max=settings.commit_bytes_max,
            copy_bytes_max=settings.copy_bytes_max,
            now_ms=runtime.now_ms,
        )
        super().__init__(
            runtime, ledger, group_bytes_max=settings.group_bytes_max, pending_bytes_max=settings.pending_bytes_max
        )
        self.disk = disk
        self.runtime = runtime
        self.settings = settings
        self.directories = directories
        self.ledger = ledger
        self.node = node
        self._lock = lock
        self.files = FileSet()
        self.jobs = FileJobs(runtime)
        self.sealed: list[WalFile] = []
        """Files of the write-ahead log that wait to be merged, oldest first."""
        self.deleted_lately: set[int] = set()
        """Logs deleted since the start: what the write-ahead log still holds of them is dead."""
        self.trims = 1
        """Grows whenever something in a run may have died."""
        self.arrivals = Arrivals()
        """Batches that are not merged yet, as long as nobody has asked for the tail of their log."""
        self._cache = TailCache(settings.cache_bytes_max)
        self._reader = Reader(runtime, settings, self.files, self._cache)
        self._failure_callbacks: list[Callable[[BaseException], None]] = []
        self._proof_timer: Timer | None = None
        self._to_measure: list[LogState] = []
        self._proof_due = False
        self._last_group = 0.0
        self._place = 0
        """Where the batches of the group that is being shown lie."""
        self._closed: Answer[None] | None = None
        self._reclaim_due = False
        self._take_over(recovered)
        self.writer = WalWriter(
            disk=disk,
            runtime=runtime,
            settings=settings,
            directory=directories.wal,
            node=node,
            next_sequence=recovered.next_sequence,
            next_generation=recovered.next_generation,
            spares=recovered.spares,
            jobs=self.jobs,
            is_full=lambda: ledger.full,
            on_room=self.room_came,
            on_sealed=self._sealed,
            on_failure=self._failed,
        )
        self.files.wal[self.writer.active.generation] = self.writer.active
        self._merges = Merges(self, recovered.state_runs, recovered.state_to, recovered.next_run)
        self._maintenance = Maintenance(self, self._merges)

    @classmethod
    def open(cls, *, disk: Disk, runtime: Runtime, settings: EngineSettings) -> LocalEngine:
        """Recover what is there, and be ready. Raises DiskError kinds and OSError."""
        directories = Directories(settings)
        directories.make(disk)
        lock = lock_directory(disk, directories.root)
        try:
            node = load_identity(disk, directories.root, os.urandom(16))
            recovered = Recovery(disk, directories, settings.wal_file_bytes).run()
            if recovered.cut is not None:
                log_output.info("cut a torn tail: %s", recovered.cut)
            usage = disk.usage(directories.wal)
            if usage.free < settings.wal_file_bytes + settings.reserve_bytes(usage.total):
                give_tails_back(recovered)
            if settings.disk_high_mark is not None:
                log_output.warning(
                    "disk_high_mark is on: when %.0f %% of the disk are in use, the oldest records go before their "
                    "retention ends, read or not",
                    settings.disk_high_mark * 100,
                )
            return cls(
                disk=disk,
                runtime=runtime,
                settings=settings,
                directories=directories,
                lock=lock,
                node=node,
                recovered=recovered,
            )
        except BaseException:
            if lock is not None:
                lock.release()
            raise

    def _take_over(self, recovered: Recovered) -> None:
        """Make logs of what was found."""
        ledger = self.ledger
        ledger.scopes = recovered.scopes
        for wal_file in recovered.wal:
            self.files.wal[wal_file.generation] = wal_file
            self.sealed.append(wal_file)
        nexts = dict(recovered.tail_nexts)
        sizes: dict[int, int] = {}
        for run in recovered.runs:
            self.files.add_run(run)
            index = run.index
            for log, next_offset, size in zip(index.logs, index.nexts, index.bytes, strict=True):
                if next_offset > nexts.get(log, -1):
                    nexts[log] = next_offset
                sizes[log] = sizes.get(log, 0) + size
        for key, value in recovered.scopes.get(scopes.DELETED, {}).items():
            ledger.deleted.replay(key, value)
        for key, value in recovered.scopes.get(scopes.LOGS, {}).items():
            log = scopes.decode_log_key(key)
            entry = scopes.decode_log_entry(value)
            state = LogState(
                log, entry.config, ledger.default_rank, self.settings.copy_bytes_max, entry.start, entry.floor
            )
            state.next = state.end = max(entry.start, nexts.get(log, 0))
            tail = recovered.tails.get(log)
            state.bytes = sizes.get(log, 0)
            if tail is not None and len(tail):
                state.tail = tail
                state.bytes += tail.bytes_from(0)
            state.producers = recovered.producers.get(log) or None
            ledger.logs.add(state)
            ledger.visible[log] = state
            ledger.classify(state)
            if entry.start:
                ledger.starts[log] = entry.start
                self.measure(state)
        self.deleted_lately.update(log for log in recovered.tails if log not in ledger.logs)
        self._take_transactions(recovered)

    def _take_transactions(self, recovered: Recovered) -> None:
        ledger = self.ledger
        for key, value in recovered.scopes.get(scopes.TRANSACTIONS, {}).items():
            log, producer = scopes.decode_pair_key(key)
            if (state := ledger.logs.get(log)) is not None:
                first = scopes.decode_number(value)
                if state.open is None:
                    state.open = {}
                state.open[producer] = first
                state.visible_transactions().begin(producer, first)
        for key, value in sorted(recovered.scopes.get(scopes.ABORTED, {}).items()):
            log, marker = scopes.decode_pair_key(key)
            if (state := ledger.logs.get(log)) is not None:
                producer, first = scopes.decode_pair(value)
                transactions = state.visible_transactions()
                held = transactions.open.pop(producer, None)
                transactions.begin(producer, first)
                transactions.end(producer, marker, commit=False)
                if held is not None:
                    transactions.begin(producer, held)

    # The contract

    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        """Batches from `offset` on."""
        return self._reader.read(self.ledger.visible.get(log), log, offset, max_bytes, hint)

    def offset_at(self, log: int, place: Place) -> Answer[Found]:
        """Find a position."""
        state = self.ledger.visible.get(log)
        if state is None:
            return Answer.failed(UnknownLog(f"log {log}"))
        return self._edge(state, place) or self._reader.find(state, place)

    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        """Do what is due."""
        if self._failure is not None or self._closing:
            return Answer.failed(self._failure or EngineClosed("the engine is closed"))
        return self._maintenance.maintain(budget)

    # Groups

    def commit_own(self, items: list[StateItem]) -> Answer[None]:
        """Change the engine's own state, synced whatever the policy: files depend on it."""
        answer: Answer[None] = Answer()
        if self._failure is not None or self._closing:
            answer.fail(self._failure or EngineClosed("the engine is closed"))
            return answer
        for scope, key, value in items:
            self.ledger.mutate(scope, key, value, self._open)
        self._open.rank = FLUSH_SYNC
        self._answer_when_durable(answer, None)
        return answer

    @property
    def pending_bytes(self) -> int:
        """What is on its way to the disk."""
        return self._submitted_bytes + self._open.bytes

    def _submit(self, group: CommitGroup) -> None:
        self.writer.write(group, self._written)
        active = self.writer.active
        if active.generation not in self.files.wal:
            self.files.wal[active.generation] = active
            self.space.look()
        elif self.ledger.full:
            self.space.limit_state()

    def _written(self, group: CommitGroup, generation: int, position: int) -> None:
        self._place = place_of(generation, position)
        self._durable(group)
        if not group.empty:
            self._proof_due = True
            self._last_group = self.runtime.monotonic()
            self._prove_soon()

    def seal_active(self) -> None:
        """Begin another file with the next group: an empty one, if no other comes."""
        self.writer.rolls_next = self._proof_due = True
        self._prove_soon()

    def _show_batches(self, group: CommitGroup) -> None:
        place = self._place
        for buffer in group.body:
            self._cache.put(place, buffer)
            place += len(buffer)
        self._show_places(group)
        # Only now: batches below the new start may be of the group that trims.
        for state in self._to_measure:
            self.measure(state)
        self._to_measure.clear()

    def _show_places(self, group: CommitGroup) -> None:
        if group.refs:
            self._show_with_refs(group)
            return
        show_entries(self.arrivals, group.entries, self._place, self._note)

    def _show_with_refs(self, group: CommitGroup) -> None:
        """A log may get batches and references in one group: both in the order of their offsets."""
        place = self._place
        places: list[int] = []
        shown: list[tuple[int, int, int, int, int, LogState, bool]] = []
        for base, time, size, count, _, _, state, _ in group.entries:
            places.append(place)
            shown.append((base, place, size, time, count, state, False))
            place += size
        for _, base, time, _, _, size, count, _, state, index in group.refs:
            shown.append((base, places[index], size, time, count, state, True))
        shown.sort(key=itemgetter(0))
        for base, place, size, time, count, state, is_ref in shown:
            if state.tail is None:
                state.tail = LogTail()
            (state.tail.append_ref if is_ref else state.tail.append)(base, place, size, time)
            state.end = base + count
            state.bytes += size
            if state.watchers is not None:
                self._note(state)

    def _sealed(self, wal_file: WalFile) -> None:
        self.sealed.append(wal_file)
        self.weigh_backlog()
        if len(self.sealed) >= self.settings.merge_files_min and not self._closing:
            self.runtime.call_soon(self._merge_soon)

    def weigh_backlog(self) -> None:
        """Refuse commits while too many files wait to be merged."""
        if self._failure is None and not self._closing:
            count = len(self.sealed)
            late = count > self.settings.unmerged_files_max
            # Callers stop reading from clients long before commits are refused.
            self._is_behind = count > self.settings.unmerged_files_max // 2
            if self._waiting_below and not self._is_behind:
                self._relieve()
            self._refusal = Overloaded(f"{count} files wait to be merged") if late else None

    def _merge_soon(self) -> None:
        self._reclaim_due = False
        if self._failure is None and not self._closing:
            self._maintenance.maintain(Budget())

    @property
    def space(self) -> Space:
        """Room on the disk."""
        return self._maintenance.space

    def room_came(self) -> None:
        """A file was removed: appends that were refused for it need not wait for the next maintenance."""
        if self.ledger.full:
            self.space.look()

    def reclaim_soon(self) -> None:
        """Something died while the disk is full: see soon what can be removed."""
        if self.ledger.full and not self._reclaim_due:
            self._reclaim_due = True
            self.runtime.call_later(RECLAIM_SECONDS, self._merge_soon)

    def _prove_soon(self) -> None:
        if self._proof_timer is None and self._closed is None:
            self._proof_timer = self.runtime.call_later(self.settings.proof_idle_ms / 1000, self._prove_if_idle)

    def _prove_if_idle(self) -> None:
        """An idle log's last group is proven by an empty one: from then on damage to it is told from a torn tail."""
        self._proof_timer = None
        if self._failure is not None or self._closed is not None or not self._proof_due:
            return
        idle = self.runtime.monotonic() - self._last_group >= self.settings.proof_idle_ms / 1000
        if idle and not self._under_way and self._open.empty and not self._full:
            self._prove()
        else:
            self._proof_timer = self.runtime.call_later(self.settings.proof_idle_ms / 1000, self._prove_if_idle)

    def _prove(self) -> None:
        self._proof_due = False
        group = CommitGroup()
        group.rank = FLUSH_SYNC
        if self.writer.proven < self.writer.last_sequence:
            # It is written when that is done, and nothing before it.
            self._under_way.append(group)
            self._under_way_max = 1
            self.writer.sync(lambda: self._submit_proof(group))
        else:
            self._begin(group)

    def _submit_proof(self, group: CommitGroup) -> None:
        self._under_way_max = UNDER_WAY_MAX
        self._submit(group)

    # Logs

    def measure(self, state: LogState) -> None:
        """Count the bytes of a log anew."""
        state.bytes = self.files.bytes_from(state, state.visible_start)

    def _trimmed(self, state: LogState) -> None:
        super()._trimmed(state)
        self.trims += 1
        self._to_measure.append(state)
        self.reclaim_soon()

    def _forget_log(self, state: LogState) -> None:
        super()._forget_log(state)
        self.trims += 1
        self.deleted_lately.add(state.log)
        self.reclaim_soon()

    # Ends

    def on_failure(self, callback: Callable[[BaseException], None]) -> None:
        """Be told when a write or sync has failed: the broker must stop."""
        self._failure_callbacks.append(callback)

    def _failed(self, failure: EngineFailed) -> None:
        self._fail(failure)
        for callback in self._failure_callbacks:
            callback(failure)

    def close(self) -> Answer[None]:
        """Take no more commits, finish those under way, prove the last group, let the directory go."""
        if self._closed is not None:
            return self._closed
        self._begin_closing()
        self._closed = closed = Answer[None]()
        if self._proof_timer is not None:
            self._proof_timer.cancel()
        pending: Answer[None] = Answer()

        def prove(_: Answer[None]) -> None:
            if self._failure is None and self._proof_due:
                self._prove()
                done: Answer[None] = Answer()
                self._under_way[-1].answers.append((done, None))
                done.on_done(lambda _: finish())
            else:
                finish()

        def finish() -> None:
            self.jobs.close(lambda: self.writer.close(release))

        def release() -> None:
            for file in (*self.files.wal.values(), *self.files.runs.values()):
                file.when_free(file.file.close)
            if self._lock is not None:
                self._lock.release()
            closed.resolve(None)

        pending.on_done(prove)
        # A merge under way writes into the directory: it must have ended before another engine may open it. It may have
        # half a minute to go; what is not done soon is made anew after the next start.
        impatience = self.runtime.call_later(CLOSE_MERGE_SECONDS_MAX, self.runtime.abandon_merge)
        closed.on_done(lambda _: impatience.cancel())
        self._maintenance.when_idle(lambda: self._answer_when_durable(pending, None))
        return closed

    def metrics(self) -> dict[str, float]:
        """Facts for operators."""
        space = self.space
        return {
            "logs": len(self.ledger.visible),
            "wal_files_sealed": len(self.sealed),
            "wal_files_spare": self.writer.spares,
            "runs": len(self.files.runs),
            "run_bytes": sum(run.bytes for run in self.files.runs.values()),
            "cache_bytes": self._cache.bytes,
            "pending_bytes": self.pending_bytes,
            "groups": self.writer.last_sequence,
            "disk_free_bytes": space.usage.free,
            "disk_high_mark": self.settings.disk_high_mark or 0.0,
            "appends_refused": float(self.ledger.full),
            "records_deleted_early_total": space.early_deletion.records,
            "corrupt": float(self._merges.damage is not None),
        }
