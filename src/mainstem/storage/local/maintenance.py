"""Keeping house: space, retention, merging, compaction, in steps that never hold the loop for long.

Every change of which files are live is one commit: the new ones are complete on disk before, the old ones go after.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from mainstem.model.errors import CorruptData, MainstemError
from mainstem.storage import engine_scopes as scopes
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Budget, Commit, LogChange, MaintainReport, TrimLog
from mainstem.storage.disk import DiskUsage
from mainstem.storage.local.merge_job import (
    CompactionRule,
    Job,
    MergeJob,
    MergeOutcome,
    RunInput,
    RunOutput,
    StateJob,
    WalInput,
    decode_outcome,
    encode_job,
)
from mainstem.storage.local.run_file import RunIndex
from mainstem.storage.local.stored_file import RunFile, WalFile, run_name
from mainstem.storage.local.tail import place_of
from mainstem.storage.log_state import LogState
from mainstem.storage.retention import retained_start
from mainstem.storage.steps import Steps, run_steps, turn

if TYPE_CHECKING:
    from mainstem.storage.local.engine import LocalEngine

T = TypeVar("T")

FileChanges: TypeAlias = list[tuple[bytes, bytes | None]]
"""Keys and values of engine/files."""


class CompactionProgress(NamedTuple):
    """How far a log is compacted, and when once more is due (0: not before something is written)."""

    cleaned_to: int
    settle_ms: int


LOGS_PER_TURN = 500
SLOTS_PER_TURN = 5_000
STATE_RUNS_MAX = 8
TIER_MAX = 2
TRIMS_PER_COMMIT = 1_000
RUN_IDS_PER_JOB = 4096

log_output = logging.getLogger("mainstem.storage")


class Maintenance:
    """What an engine does besides answering."""

    def __init__(self, engine: LocalEngine, state_runs: list[str], state_to: int, next_run: int) -> None:
        self._engine = engine
        self._state_runs = state_runs
        self._state_to = state_to
        self._next_run = next_run
        self._running: Answer[MaintainReport] | None = None
        self._retention_due = 0.0
        self.damage: CorruptData | None = None
        """Corruption met by a merge. Merging stops, so that nothing is built on it; reading goes on."""
        self.space = DiskUsage(1, 1)

    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        """Do what is due; a call while one is under way gets the same answer."""
        if self._running is None:
            answer = run_steps(self._steps(budget))
            if answer.done:
                return answer
            self._running = answer
            answer.on_done(self._finished)
            return answer
        return self._running

    def when_idle(self, action: Callable[[], None]) -> None:
        """Call, now or later, when nothing is under way."""
        if self._running is None:
            action()
        else:
            self._running.on_done(lambda _: action())

    def _finished(self, answer: Answer[MaintainReport]) -> None:
        self._running = None
        if answer.error is not None and not isinstance(answer.error, MainstemError):
            log_output.error("maintenance failed: %s", answer.error)

    def _steps(self, budget: Budget) -> Steps[MaintainReport]:
        report = MaintainReport()
        yield from self._check_space(report)
        now = self._engine.runtime.monotonic()
        if now >= self._retention_due:
            self._retention_due = now + self._engine.settings.retention_check_ms / 1000
            yield from self._retain(report)
        for _ in range(budget.jobs_max):
            if not (yield from self._next_job(report)):
                break
        report.full = self._engine.ledger.full
        return report

    # Waiting

    def _lane(self, job: Callable[[], T]) -> Answer[T]:
        answer: Answer[T] = Answer()

        def done(value: Any, error: BaseException | None) -> None:
            answer.resolve(value) if error is None else answer.fail(error)

        self._engine.runtime.read(job, done)
        return answer

    def _merge(self, job: Job) -> Steps[MergeOutcome | None]:
        """Let the merge process do a job; None when it could not, now or for ever."""
        answer: Answer[bytes] = Answer()

        def done(value: bytes | None, error: BaseException | None) -> None:
            answer.fail(error) if error is not None else answer.resolve(value or b"")

        self._engine.runtime.merge(encode_job(job), done)
        outcome = decode_outcome((yield answer))
        if outcome.damage is not None:
            damage = outcome.damage
            self.damage = CorruptData(damage.file, damage.position, damage.what, tuple(damage.logs))
            log_output.error("%s; merging has stopped", self.damage)
            return None
        if outcome.error is not None:
            log_output.warning("merge failed and will be tried again: %s", outcome.error)
            if outcome.no_space:
                self._engine.ledger.full = True
            return None
        return outcome

    def _commit_files(self, changes: FileChanges) -> Answer[None]:
        """Change what is live, durably."""
        return self._engine.commit_own([(scopes.FILES, key, value) for key, value in changes])

    # Space

    def _check_space(self, report: MaintainReport) -> Steps[None]:
        engine, settings = self._engine, self._engine.settings
        usages = yield self._lane(lambda: [engine.disk.usage(path) for path in engine.directories.all()])
        fullest = min(usages, key=lambda usage: usage.free / max(1, usage.total))
        self.space = fullest
        used = 1 - fullest.free / max(1, fullest.total)
        full = used >= settings.disk_hard_mark or min(u.free for u in usages) < settings.disk_reserve_bytes
        if full != engine.ledger.full:
            log_output.warning(
                "appends are %s: %.1f %% of the disk is in use", "refused" if full else "taken", used * 100
            )
        engine.ledger.full = full
        if full:
            engine.writer.shed_spare()
        else:
            engine.writer.prepare_spares()
        if full or used >= settings.disk_high_mark:
            yield from self._shed_oldest(report)

    def _shed_oldest(self, report: MaintainReport) -> Steps[None]:
        """Trim what the oldest run holds, as far as logs have a retention that would take it some day."""
        ledger = self._engine.ledger
        for run in sorted(self._engine.files.runs.values(), key=lambda run: max(run.index.times, default=0)):
            changes: list[LogChange] = []
            for log, next_offset in zip(run.index.logs, run.index.nexts, strict=True):
                state = ledger.visible.get(log)
                if state is None or not _may_go_early(state):
                    continue
                limit = min(state.stable, state.floor) if state.config.acknowledged == "hold" else state.stable
                if min(next_offset, limit) > state.start:
                    changes.append(TrimLog(log, min(next_offset, limit)))
            if changes:
                log_output.warning("disk use is above the high mark: old data of %d logs goes early", len(changes))
                yield from self._trim(changes, report)
                return

    def _trim(self, changes: list[LogChange], report: MaintainReport) -> Steps[None]:
        for first in range(0, len(changes), TRIMS_PER_COMMIT):
            part = changes[first : first + TRIMS_PER_COMMIT]
            yield self._engine.commit([Commit(changes=[change]) for change in part])
            report.trimmed_logs += len(part)

    # Retention

    def _retain(self, report: MaintainReport) -> Steps[None]:
        engine = self._engine
        now_ms = engine.runtime.now_ms()
        for part in _parts(list(engine.ledger.visible.values()), LOGS_PER_TURN):
            changes: list[LogChange] = []
            for state in part:
                if state.producers:
                    report.expired_producers += self._expire(state, now_ms)
                config = state.config
                if config.retention_ms is None and config.retention_bytes is None and config.acknowledged != "release":
                    continue
                if state.start >= state.stable:
                    continue
                start = retained_start(
                    config,
                    start=state.start,
                    floor=state.floor,
                    end=state.stable,
                    total_bytes=state.bytes,
                    stretches=((s.next, s.size, s.time) for s in engine.files.stretches(state, state.visible_start)),
                    now_ms=now_ms,
                )
                if start > state.start:
                    changes.append(TrimLog(state.log, start))
            if changes:
                yield from self._trim(changes, report)
            else:
                yield turn(engine.runtime)

    def _expire(self, state: LogState, now_ms: int) -> int:
        assert state.producers is not None
        before = now_ms - self._engine.settings.producer_expiry_ms
        silent = [p for p, known in state.producers.items() if known.last_ms < before and p not in (state.open or ())]
        for producer in silent:
            del state.producers[producer]
        return len(silent)

    # Jobs

    def _next_job(self, report: MaintainReport) -> Steps[bool]:
        """Do the most urgent job; False when none is due."""
        if self.damage is not None:
            return False
        sealed = self._engine.sealed
        if len(sealed) >= self._engine.settings.merge_files_min:
            return (yield from self._merge_wal(report))
        dead = yield from self._most_dead_run()
        if dead is not None:
            return (yield from self._rewrite(dead, report))
        tier = self._crowded_tier()
        if tier is not None:
            inputs = self._convex(tier)
            return (yield from self._merge_runs(inputs, tier[0].index.tier + 1, {}, [], report))
        compaction = self._due_compaction()
        if compaction is not None:
            return (yield from self._compact(*compaction, report))
        if len(self._state_runs) >= STATE_RUNS_MAX:
            return (yield from self._join_state())
        return False

    def _job(self, kind: str, tier: int) -> MergeJob:
        engine, settings = self._engine, self._engine.settings
        ledger = engine.ledger
        directories = sorted(engine.directories.runs, key=lambda path: -engine.disk.usage(path).free)
        adopt = engine.disk.same_filesystem(engine.directories.wal, engine.directories.runs[0])
        job = MergeJob(
            kind="wal" if kind == "wal" else "runs",
            now_ms=engine.runtime.now_ms(),
            starts=ledger.starts,
            classes=ledger.classes,
            key_indexed=sorted(ledger.key_indexed),
            output_directories=directories,
            first_run_id=self._next_run,
            tier=tier,
            run_bytes_max=settings.run_bytes_max,
            block_bytes=settings.block_bytes,
            adopt_share=settings.adopt_share,
            adopt=adopt,
        )
        self._next_run += RUN_IDS_PER_JOB
        return job

    def _merge_wal(self, report: MaintainReport) -> Steps[bool]:
        engine = self._engine
        files: list[WalFile] = []
        for wal_file in engine.sealed[: engine.settings.merge_files_max]:
            # A state run written before a crash ends with a file; no job straddles its end.
            if files and (files[0].last <= self._state_to) != (wal_file.last <= self._state_to):
                break
            files.append(wal_file)
        with_state = files[0].last > self._state_to
        job = self._job("wal", 0)
        job.wal = [WalInput(f.file.path, f.generation, f.first, f.last, f.end) for f in files]
        job.deleted = sorted(engine.deleted_lately)
        job.state_directory = engine.directories.state if with_state else None
        outcome = yield from self._merge(job)
        if outcome is None:
            return False
        last = files[-1].last
        if with_state and outcome.state_run is not None:
            self._state_runs.append(outcome.state_run)
            self._state_to = last
        ages = (files[0].first, last)
        runs = yield self._lane(lambda: [self._open_run(output, ages) for output in outcome.runs])
        changes = [(scopes.MERGED_KEY, scopes.encode_number(last)), *_entries(runs)]
        yield self._commit_files(changes)
        for run in runs:
            engine.files.add_run(run)
        yield from self._drop_tails(place_of(files[-1].generation + 1, 0))
        del engine.sealed[: len(files)]
        for wal_file in files:
            del engine.files.wal[wal_file.generation]
        yield from self._finish_adoptions(runs)
        adopted = {run.adopted for run in runs}
        for wal_file in files:
            if wal_file.generation in adopted:
                wal_file.when_free(wal_file.file.close)
            else:
                wal_file.when_free(_recycler(engine, wal_file))
        report.merged_files += len(files)
        report.written_runs += len(runs)
        return True

    def _open_run(self, output: RunOutput, ages: tuple[int, int]) -> RunFile:
        file = self._engine.disk.open(output.path, writable=False)
        directory = output.path.rpartition("/")[0]
        if output.adopted is not None:
            directory = self._engine.directories.runs[0]
        return RunFile(file, RunIndex.load(file), directory, output.adopted, ages)

    def _drop_tails(self, place: int) -> Steps[None]:
        engine = self._engine
        for part in _parts(list(engine.ledger.visible.values()), LOGS_PER_TURN):
            for state in part:
                tail = state.tail
                if tail is not None:
                    tail.drop_before(place)
                    if not tail.bases:
                        state.tail = None
            yield turn(engine.runtime)

    def _finish_adoptions(self, runs: list[RunFile]) -> Steps[None]:
        disk, directories = self._engine.disk, self._engine.directories
        moves = [
            (run.file.path, f"{run.directory}/{run_name(run.index.id)}") for run in runs if run.adopted is not None
        ]

        def move() -> None:
            for source, target in moves:
                disk.rename(source, target)
            for path in (directories.wal, directories.runs[0]):
                disk.sync_directory(path)

        if moves:
            yield self._lane(move)
            for run in runs:
                if run.adopted is not None:
                    run.file.path = f"{run.directory}/{run_name(run.index.id)}"

    def _most_dead_run(self) -> Steps[RunFile | None]:
        """A run of which too much is dead; looks at those where anything was trimmed or deleted since."""
        engine = self._engine
        limit = engine.settings.dead_share_max
        for run in list(engine.files.runs.values()):
            if run.checked == engine.trims:
                continue
            checked = engine.trims
            dead = yield from self._dead_bytes(run)
            if run.index.id not in engine.files.runs:
                continue
            run.checked = checked
            run.dead_bytes = dead
        worst = max(engine.files.runs.values(), key=_dead_share, default=None)
        return worst if worst is not None and _dead_share(worst) > limit else None

    def _dead_bytes(self, run: RunFile) -> Steps[int]:
        index, visible = run.index, self._engine.ledger.visible
        dead = 0
        for slot, log in enumerate(index.logs):
            state = visible.get(log)
            start = index.nexts[slot] if state is None else state.visible_start
            if start >= index.nexts[slot]:
                dead += index.bytes[slot]
            elif start > index.firsts[slot]:
                for block in index.blocks(slot):
                    if index.block_nexts[block] > start:
                        break
                    dead += index.block_sizes[block]
            if slot % SLOTS_PER_TURN == SLOTS_PER_TURN - 1:
                yield turn(self._engine.runtime)
        return dead

    def _rewrite(self, run: RunFile, report: MaintainReport) -> Steps[bool]:
        if run.dead_bytes >= sum(run.index.bytes):
            yield self._commit_files([(scopes.run_key(run.index.id), None)])
            self._discard([run], report)
            return True
        return (yield from self._merge_runs([run], run.index.tier, {}, [], report))

    def _crowded_tier(self) -> list[RunFile] | None:
        tiers: dict[tuple[int, int], list[RunFile]] = {}
        for run in self._engine.files.runs.values():
            if run.adopted is None and run.index.tier < TIER_MAX:
                tiers.setdefault((run.index.retention_class, run.index.tier), []).append(run)
        for runs in tiers.values():
            if len(runs) >= self._engine.settings.tier_runs_max:
                return sorted(runs, key=lambda run: run.ages)[: self._engine.settings.tier_runs_max]
        return None

    def _convex(self, chosen: list[RunFile]) -> list[RunFile]:
        """The chosen runs and all that lie between them in time and share logs with them.

        Only neighbours may become one: a log's offsets in one run must not surround those in another.
        """
        inputs = {run.index.id: run for run in chosen}
        while True:
            oldest = min(run.ages[0] for run in inputs.values())
            newest = max(run.ages[1] for run in inputs.values())
            logs: set[int] = set().union(*(run.index.logs for run in inputs.values()))
            between = [
                run
                for run in self._engine.files.runs.values()
                if run.index.id not in inputs
                and run.ages[0] <= newest
                and run.ages[1] >= oldest
                and not logs.isdisjoint(run.index.logs)
            ]
            if not between:
                return sorted(inputs.values(), key=lambda run: run.ages)
            inputs.update((run.index.id, run) for run in between)

    def _merge_runs(
        self,
        inputs: list[RunFile],
        tier: int,
        compact: dict[int, CompactionRule],
        notes: FileChanges,
        report: MaintainReport,
    ) -> Steps[bool]:
        engine = self._engine
        job = self._job("runs", tier)
        job.runs = [RunInput(run.file.path, run.index.id) for run in inputs]
        job.deleted = [log for run in inputs for log in run.index.logs if log not in engine.ledger.visible]
        job.compact = compact
        outcome = yield from self._merge(job)
        if outcome is None:
            return False
        ages = (min(run.ages[0] for run in inputs), max(run.ages[1] for run in inputs))
        runs = yield self._lane(lambda: [self._open_run(output, ages) for output in outcome.runs])
        changes: FileChanges = [(scopes.run_key(run.index.id), None) for run in inputs]
        yield self._commit_files([*changes, *_entries(runs), *notes])
        for run in runs:
            engine.files.add_run(run)
        self._discard(inputs, report)
        report.written_runs += len(runs)
        return True

    def _discard(self, runs: list[RunFile], report: MaintainReport) -> None:
        engine = self._engine
        for run in runs:
            engine.files.remove_run(run.index.id)
            run.when_free(_remover(engine, run))
        report.removed_files += len(runs)

    # Compaction by key

    def _due_compaction(self) -> tuple[LogState, CompactionProgress] | None:
        engine = self._engine
        now_ms = engine.runtime.now_ms()
        for log in engine.ledger.classes:
            state = engine.ledger.visible.get(log)
            if state is not None and state.config.compact:
                progress = self._compaction_progress(state, now_ms)
                if progress is not None:
                    return state, progress
        return None

    def _compaction_progress(self, state: LogState, now_ms: int) -> CompactionProgress | None:
        """What a compaction of the log would reach, if one is due.

        It is due when enough was written since the last one, and once more when the tombstones of that have been kept
        for long enough.
        """
        value = self._engine.ledger.scopes.get(scopes.FILES, {}).get(compacted_key(state.log))
        cleaned_to, settle_ms = (0, 0) if value is None else scopes.decode_pair(value)
        config = state.config
        youngest_ms = now_ms - config.compaction_lag_ms_min
        clean = dirty = 0
        reach = cleaned_to
        for stretch in self._engine.files.stretches(state, state.visible_start):
            if stretch.crc < 0 or stretch.next > state.stable or stretch.time > youngest_ms:
                break  # not in a run yet, or not to be touched yet
            if stretch.next <= cleaned_to:
                clean += stretch.size
            else:
                dirty += stretch.size
            reach = max(reach, stretch.next)
        if dirty and dirty >= config.dirty_ratio_min * (clean + dirty):
            return CompactionProgress(reach, now_ms + config.tombstone_retention_ms)
        if settle_ms and settle_ms < now_ms and clean:
            return CompactionProgress(reach, 0)
        return None

    def _compact(self, state: LogState, progress: CompactionProgress, report: MaintainReport) -> Steps[bool]:
        engine = self._engine
        inputs = self._convex([part.run for part in engine.files.view(state.log)])
        transactions = state.transactions
        rule = CompactionRule(
            tombstone_retention_ms=state.config.tombstone_retention_ms,
            before_ms=engine.runtime.now_ms() - state.config.compaction_lag_ms_min,
            stable=state.stable,
            aborted=[(a.producer, a.first, a.last) for a in transactions.aborted] if transactions else [],
        )
        tier = max(run.index.tier for run in inputs)
        notes: FileChanges = [(compacted_key(state.log), scopes.encode_pair(*progress))]
        done = yield from self._merge_runs(inputs, tier, {state.log: rule}, notes, report)
        if done:
            engine.measure(state)
            report.compacted_logs += 1
        return done

    # State

    def _join_state(self) -> Steps[bool]:
        engine = self._engine
        inputs = list(self._state_runs)
        job = StateJob(inputs, engine.directories.state, engine.runtime.now_ms(), engine.settings.producer_expiry_ms)
        outcome = yield from self._merge(job)
        if outcome is None or outcome.state_run is None:
            return False
        self._state_runs = [outcome.state_run]

        def remove() -> None:
            for path in inputs:
                engine.disk.remove(path)

        yield self._lane(remove)
        return True


def compacted_key(log: int) -> bytes:
    """Where the compaction of a log stands."""
    return scopes.COMPACTED_PREFIX + scopes.log_key(log)


def _may_go_early(state: LogState) -> bool:
    config = state.config
    return config.delete and (config.retention_ms is not None or config.retention_bytes is not None)


def _dead_share(run: RunFile) -> float:
    return run.dead_bytes / max(1, sum(run.index.bytes))


def _entries(runs: list[RunFile]) -> FileChanges:
    return [
        (
            scopes.run_key(run.index.id),
            scopes.encode_run_entry(
                scopes.RunEntry(
                    run.directory,
                    run.adopted,
                    run.index.retention_class,
                    run.index.tier,
                    sum(run.index.bytes),
                    run.ages,
                )
            ),
        )
        for run in runs
    ]


def _recycler(engine: LocalEngine, wal_file: WalFile) -> Callable[[], None]:
    return lambda: engine.writer.recycle(wal_file)


def _remover(engine: LocalEngine, run: RunFile) -> Callable[[], None]:
    def remove() -> None:
        run.file.close()
        engine.jobs.run(lambda: engine.disk.remove(run.file.path), _note_failure)

    return remove


def _note_failure(error: BaseException | None) -> None:
    if error is not None:
        log_output.warning("a dead run could not be removed: %s", error)


def _parts(items: list[T], size: int) -> Iterator[list[T]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]
