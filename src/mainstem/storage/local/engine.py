"""The engine on local disk: what the contract promises, put together from its parts.

commit   -> Sequencer (order, rules) -> LocalStore (WalWriter: one group, one sync) -> Sequencer (watchers, answers)
read     -> Reader: cache | WAL files | runs
maintain -> Maintenance: WAL files -> runs, retention, compaction, space

A group crosses from the sequencer to the store and back once. The store shows it: tails and cache.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mainstem.model.errors import EngineFailed, OwnershipLost
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Budget,
    Fence,
    Found,
    Lease,
    LogChange,
    MaintainReport,
    Mutation,
    Place,
    ReadHint,
    ReadResult,
    StateSnapshot,
    Watch,
    WatchCallback,
)
from mainstem.storage.local.directories import Directories, DirectoryLock, load_identity, lock_directory
from mainstem.storage.local.limits import EngineLimits
from mainstem.storage.local.ownership import Ownership, SoleOwnership
from mainstem.storage.local.proofs import Proofs
from mainstem.storage.local.read.file_set import FileSet
from mainstem.storage.local.read.reader import Reader
from mainstem.storage.local.read.tail import TailCache
from mainstem.storage.local.recovery import Recovered, Recovery, give_tails_back
from mainstem.storage.local.restoration import restore
from mainstem.storage.local.runs.stored_file import WalFile
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.local.store import LocalStore
from mainstem.storage.local.upkeep.backlog import Backlog
from mainstem.storage.local.upkeep.compactions import Compactions
from mainstem.storage.local.upkeep.dead_space import DeadSpace
from mainstem.storage.local.upkeep.early_deletion import EarlyDeletion
from mainstem.storage.local.upkeep.maintenance import Maintenance
from mainstem.storage.local.upkeep.merges import Merges
from mainstem.storage.local.upkeep.retention_pass import RetentionPass, Trims
from mainstem.storage.local.upkeep.space import Space
from mainstem.storage.local.upkeep.tiers import Tiers
from mainstem.storage.local.wal.file_jobs import FileJobs
from mainstem.storage.local.wal.shipping import Shipping
from mainstem.storage.local.wal.writer import WalWriter
from mainstem.storage.runtime.disk import Disk
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.sequencer.ledger import Ledger
from mainstem.storage.sequencer.log_state import FLUSH_RANKS
from mainstem.storage.sequencer.log_tail import Arrivals
from mainstem.storage.sequencer.sequencer import Sequencer

log_output = logging.getLogger("mainstem.storage")

CLOSE_MERGE_SECONDS_MAX = 2.0
"""How long an engine that closes waits for a merge."""


class Beginning(NamedTuple):
    """What a start begins with."""

    node: bytes
    recovered: Recovered


def find(disk: Disk, settings: EngineSettings, first_generation: int = 1) -> Beginning:
    """Recover what is in the directory. Blocks; raises DiskError kinds and OSError.

    Of a store that is shared, `first_generation` is above every generation that was ever used.
    """
    directories = Directories(settings)
    node = load_identity(disk, directories.root, os.urandom(16))
    recovered = Recovery(disk, directories, settings.wal_file_bytes, first_generation).run()
    if recovered.cut is not None:
        log_output.info("cut a torn tail: %s", recovered.cut)
    return Beginning(node, recovered)


class LocalEngine:
    """One node's log. Open it with `LocalEngine.open`."""

    def __init__(
        self,
        *,
        disk: Disk,
        runtime: Runtime,
        settings: EngineSettings,
        limits: EngineLimits,
        directories: Directories,
        lock: DirectoryLock | None,
        node: bytes,
        recovered: Recovered,
        ownership: Ownership,
        shipping: Shipping | None,
    ) -> None:
        self.term = ownership.term
        """How often the store has changed hands; 0 on one node."""
        self._ownership = ownership
        self._runtime = runtime
        self._settings = settings
        self._lock = lock
        self._failure_callbacks: list[Callable[[BaseException], None]] = []
        self._closed: Answer[None] | None = None
        self.ledger = Ledger(
            default_rank=FLUSH_RANKS[settings.flush],
            commit_bytes_max=settings.commit_bytes_max,
            copy_bytes_max=settings.copy_bytes_max,
            now_ms=runtime.now_ms,
        )
        self.sequencer = Sequencer(
            runtime,
            self.ledger,
            group_bytes_max=settings.group_bytes_max,
            pending_bytes_max=settings.pending_bytes_max,
            limits=limits.sequencer,
        )
        self.files = FileSet(limits.read.views_max)
        self.backlog = Backlog(self.sequencer, settings.unmerged_files_max)
        self.backlog.files += recovered.wal
        restore(recovered, self.ledger, self.files, settings.copy_bytes_max)
        self._cache = TailCache(settings.cache_bytes_max, limits.read.cache_gone_max)
        self._reader = Reader(
            runtime=runtime,
            visible=self.ledger.visible,
            files=self.files,
            cache=self._cache,
            read_bytes_max=settings.read_bytes_max,
            limits=limits.read,
        )
        self._jobs = FileJobs(runtime)
        self.writer = WalWriter(
            disk=disk,
            runtime=runtime,
            settings=settings,
            joined_bytes_max=limits.joined_bytes_max,
            directory=directories.wal,
            node=node,
            next_sequence=recovered.next_sequence,
            next_generation=recovered.next_generation,
            spares=recovered.spares,
            jobs=self._jobs,
            is_full=lambda: self.ledger.full,
            on_room=lambda: self._space.room_came(),
            on_sealed=self._sealed,
            on_failure=self._failed,
            shipping=shipping,
        )
        self.files.wal[self.writer.active.generation] = self.writer.active
        is_shipped = shipping is not None
        self.proofs = Proofs(runtime, self.sequencer, self.writer, settings.proof_idle_ms, is_shipped=is_shipped)
        arrivals = Arrivals()
        self._put_upkeep_together(disk, directories, limits, arrivals, recovered)
        self.sequencer.attach(
            LocalStore(
                sequencer=self.sequencer,
                writer=self.writer,
                files=self.files,
                arrivals=arrivals,
                cache=self._cache,
                space=self._space,
                proofs=self.proofs,
                on_death=self._maintenance.reclaim_soon,
            )
        )
        # These are called for every request: without a call in between.
        self.commit = self.sequencer.commit
        self.is_above = self.sequencer.is_above
        self.read = self._reader.read
        if not isinstance(ownership, SoleOwnership):
            self.read = self._read_as_owner
            ownership.on_lost(self.writer.fail)

    def _put_upkeep_together(
        self, disk: Disk, directories: Directories, limits: EngineLimits, arrivals: Arrivals, recovered: Recovered
    ) -> None:
        runtime, settings, sequencer, files = self._runtime, self._settings, self.sequencer, self.files
        trims = Trims(sequencer, limits.upkeep.trims_per_commit)
        self._space = Space(
            disk=disk,
            runtime=runtime,
            settings=settings,
            directories=directories,
            sequencer=sequencer,
            writer=self.writer,
            early_deletion=EarlyDeletion(self.ledger.visible, files, self._reader, trims),
        )
        self._merges = Merges(
            disk=disk,
            runtime=runtime,
            settings=settings,
            limits=limits,
            directories=directories,
            sequencer=sequencer,
            writer=self.writer,
            files=files,
            jobs=self._jobs,
            arrivals=arrivals,
            backlog=self.backlog,
            space=self._space,
            dead_space=DeadSpace(runtime, self.ledger, files, limits.upkeep),
            recovered=recovered,
        )
        tiers = Tiers(runtime, files, settings.tier_runs_max)
        self._maintenance = Maintenance(
            runtime=runtime,
            settings=settings,
            sequencer=sequencer,
            space=self._space,
            retention=RetentionPass(
                runtime=runtime,
                sequencer=sequencer,
                files=files,
                trims=trims,
                producer_expiry_ms=settings.producer_expiry_ms,
                limits=limits.upkeep,
            ),
            backlog=self.backlog,
            merges=self._merges,
            tiers=tiers,
            compactions=Compactions(
                runtime=runtime,
                ledger=self.ledger,
                files=files,
                writer=self.writer,
                merges=self._merges,
                tiers=tiers,
                check_ms=limits.upkeep.compaction_check_ms,
            ),
            proofs=self.proofs,
        )

    @classmethod
    def open(
        cls,
        *,
        disk: Disk,
        runtime: Runtime,
        settings: EngineSettings,
        limits: EngineLimits = EngineLimits(),  # noqa: B008  # frozen
        ownership: Ownership | None = None,
        shipping: Shipping | None = None,
        found: Beginning | None = None,
    ) -> LocalEngine:
        """Recover what is there, unless that was done before, and be ready. Raises DiskError kinds and OSError."""
        directories = Directories(settings)
        directories.make(disk)
        lock = lock_directory(disk, directories.root)
        try:
            node, recovered = found or find(disk, settings)
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
                limits=limits,
                directories=directories,
                lock=lock,
                node=node,
                recovered=recovered,
                ownership=ownership or SoleOwnership(),
                shipping=shipping,
            )
        except BaseException:
            if lock is not None:
                lock.release()
            raise

    # The contract

    @property
    def is_full(self) -> bool:
        """Whether appends are refused at present."""
        return self.ledger.full

    def when_below(self, pending_bytes: int, callback: Callable[[], None]) -> None:
        """Call back once, when few enough bytes wait and merging is not behind."""
        self.sequencer.when_below(pending_bytes, callback)

    def _read_as_owner(
        self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL
    ) -> Answer[ReadResult]:
        """Batches, unless somebody else may have added more by now."""
        if (over := self._over()) is not None:
            return Answer.failed(over)
        return self._reader.read(log, offset, max_bytes, hint)

    def _over(self) -> OwnershipLost | None:
        """Why nothing may be shown, though nobody has said yet that the shard has another owner."""
        return OwnershipLost(f"term {self.term} is over") if self._ownership.is_over else None

    def offset_at(self, log: int, place: Place) -> Answer[Found]:
        """Find a position."""
        if (over := self._over()) is not None:
            return Answer.failed(over)
        return self._reader.offset_at(log, place)

    def watch(self, callback: WatchCallback) -> Watch:
        """Be told when logs grow."""
        return self.sequencer.watch(callback)

    def load(self, scope: str) -> Answer[StateSnapshot]:
        """The state of a scope."""
        if (over := self._over()) is not None:
            return Answer.failed(over)
        return self.sequencer.load(scope)

    def lease(self, role: str, ttl_ms: int, renew: Lease | None = None) -> Answer[Lease | None]:
        """Take or prolong a role."""
        return self.sequencer.lease(role, ttl_ms, renew)

    def alter(
        self, changes: Sequence[LogChange], state: Sequence[Mutation] = (), fences: Sequence[Fence] = ()
    ) -> Answer[None]:
        """Create, configure, delete logs."""
        return self.sequencer.alter(changes, state, fences)

    def trim(self, log: int, before: int) -> Answer[int]:
        """Move the start of a log."""
        return self.sequencer.trim(log, before)

    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        """Do what is due."""
        if (end := self.sequencer.end) is not None:
            return Answer.failed(end)
        return self._maintenance.maintain(budget)

    # What the writer tells

    def _sealed(self, wal_file: WalFile) -> None:
        self.backlog.add(wal_file)
        if len(self.backlog.files) >= self._settings.merge_files_min and not self.sequencer.is_closing:
            self._runtime.call_soon(self._maintenance.begin_unasked)

    def on_failure(self, callback: Callable[[BaseException], None]) -> None:
        """Be told when a write or sync has failed: the broker must stop."""
        self._failure_callbacks.append(callback)

    def _failed(self, failure: EngineFailed) -> None:
        # Nobody knows what becomes of groups that an owner had under way when it lost its shard: their senders are cut off
        # before an answer could reach them that says they were refused.
        is_lost = isinstance(failure, OwnershipLost)
        if not is_lost:
            self.sequencer.fail(failure)
        for callback in self._failure_callbacks:
            callback(failure)
        if is_lost:
            self.sequencer.fail(failure)

    # The end

    def close(self) -> Answer[None]:
        """Take no more commits, finish those under way, prove the last group, let the directory go."""
        if self._closed is not None:
            return self._closed
        self.sequencer.begin_closing()
        self._closed = closed = Answer[None]()
        self.proofs.stop()
        pending: Answer[None] = Answer()

        def prove(_: Answer[None]) -> None:
            if self.sequencer.failure is None and self.proofs.is_due:
                self.proofs.prove()
                done: Answer[None] = Answer()
                self.sequencer.answer_when_durable(done, None)
                done.on_done(lambda _: finish())
            else:
                finish()

        def finish() -> None:
            self._jobs.close(lambda: self.writer.close(release))

        def release() -> None:
            for file in (*self.files.wal.values(), *self.files.runs.values()):
                file.when_free(file.file.close)
            if self._lock is not None:
                self._lock.release()
            closed.resolve(None)

        pending.on_done(prove)
        # A merge under way writes into the directory: it must have ended before another engine may open it. It may have
        # half a minute to go; what is not done soon is made anew after the next start.
        impatience = self._runtime.call_later(CLOSE_MERGE_SECONDS_MAX, self._runtime.abandon_merge)
        closed.on_done(lambda _: impatience.cancel())
        self._maintenance.when_idle(lambda: self.sequencer.answer_when_durable(pending, None))
        return closed

    def metrics(self) -> dict[str, float]:
        """Facts for operators."""
        return {
            "logs": len(self.ledger.visible),
            "wal_files_sealed": len(self.backlog.files),
            "wal_files_spare": self.writer.spares,
            "runs": len(self.files.runs),
            "run_bytes": sum(run.bytes for run in self.files.runs.values()),
            "cache_bytes": self._cache.bytes,
            "pending_bytes": self.sequencer.pending_bytes,
            "commit_groups": self.writer.last_sequence,
            "disk_free_bytes": self._space.usage.free,
            "disk_high_mark": self._settings.disk_high_mark or 0.0,
            "appends_refused": float(self.ledger.full),
            "records_deleted_early_total": self._space.early_deletion.records,
            "corrupt": float(self._merges.damage is not None),
        }
