"""Which files are live: WAL files become runs, runs become fewer, state runs are joined.

Every change is one commit: the new files are complete on disk before it, the old ones go after it.

A merge needs room before it gives any back. One file of the write-ahead log, or one run that is mostly dead, may take it
from the reserve; everything else is merged only where there is room beside the reserve.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

from mainstem.model.errors import CorruptData, StoreUnreachable
from mainstem.storage.answer import Answer
from mainstem.storage.contract import MaintainReport
from mainstem.storage.local.directories import Directories
from mainstem.storage.local.limits import EngineLimits
from mainstem.storage.local.merge.job import (
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
from mainstem.storage.local.read.file_set import FileSet
from mainstem.storage.local.read.tail import place_of
from mainstem.storage.local.recovery import Recovered
from mainstem.storage.local.runs.run_file import RunIndex
from mainstem.storage.local.runs.stored_file import RunFile, WalFile, run_name
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.local.upkeep.backlog import Backlog
from mainstem.storage.local.upkeep.dead_space import DeadSpace
from mainstem.storage.local.upkeep.space import Space
from mainstem.storage.local.wal.file_jobs import FileJobs
from mainstem.storage.local.wal.writer import WalWriter
from mainstem.storage.runtime.disk import Disk
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.runtime.steps import Steps, in_parts, in_read_lane, turn
from mainstem.storage.sequencer import engine_scopes as scopes
from mainstem.storage.sequencer.log_tail import Arrivals
from mainstem.storage.sequencer.sequencer import Sequencer

JobKind: TypeAlias = Literal["wal", "runs", "state"]
FileChanges: TypeAlias = list[tuple[bytes, bytes | None]]
"""Keys and values of engine/files."""

RUN_IDS_PER_JOB = 4096
REUSED_SHARE_MIN = 0.5
"""Of a file of the write-ahead log; a smaller one costs as much to fill up as a new one."""
RETRY_SECONDS_MIN = 0.5
RETRY_SECONDS_MAX = 60.0
SHORT_SECONDS = 5.0
"""How long jobs of a kind rest that found no room, unless something has died or room has come before."""

log_output = logging.getLogger("mainstem.storage")


class Shortage(NamedTuple):
    """A job found no room, as things were then."""

    free: int
    deaths: int
    until: float


class Merges:
    """Jobs for the merge process, and the swaps that follow them."""

    def __init__(
        self,
        *,
        disk: Disk,
        runtime: Runtime,
        settings: EngineSettings,
        limits: EngineLimits,
        directories: Directories,
        sequencer: Sequencer,
        writer: WalWriter,
        files: FileSet,
        jobs: FileJobs,
        arrivals: Arrivals,
        backlog: Backlog,
        space: Space,
        dead_space: DeadSpace,
        recovered: Recovered,
    ) -> None:
        self._disk = disk
        self._runtime = runtime
        self._settings = settings
        self._limits = limits
        self._directories = directories
        self._sequencer = sequencer
        self._ledger = sequencer.ledger
        self._writer = writer
        self._files = files
        self._jobs = jobs
        self._arrivals = arrivals
        self._backlog = backlog
        self._space = space
        self._dead_space = dead_space
        self._state_runs = recovered.state_runs
        self._state_to = recovered.state_to
        self._next_run = recovered.next_run
        self.damage: CorruptData | None = None
        """Corruption met by a merge. Merging stops, so that nothing is built on it; reading goes on."""
        self._failures = 0
        """Jobs that failed one after the other."""
        self._rest_until = 0.0
        self._shortages: dict[JobKind, Shortage] = {}

    @property
    def resting(self) -> bool:
        """Whether nothing is to be begun now: something is damaged, or the last jobs have failed."""
        return self.damage is not None or self._runtime.monotonic() < self._rest_until

    def is_short(self, kind: JobKind) -> bool:
        """Whether the last job of its kind found no room, and would find none now: nothing has died, no room has come."""
        short = self._shortages.get(kind)
        if short is None:
            return False
        same = self._files.deaths == short.deaths and self._free <= short.free
        return same and self._runtime.monotonic() < short.until

    @property
    def _free(self) -> int:
        return max(self._disk.usage(path).free for path in self._directories.runs)

    @property
    def state_runs_due(self) -> bool:
        """Whether a start would read much of the state twice, because there are too many state runs."""
        return len(self._state_runs) >= self._limits.upkeep.state_runs_max

    def _merge(self, kind: JobKind, job: Job) -> Steps[MergeOutcome | None]:
        """Let the merge process do a job; None when it could not, now or for ever."""
        answer: Answer[bytes] = Answer()

        def done(value: bytes | None, error: BaseException | None) -> None:
            answer.fail(error) if error is not None else answer.resolve(value or b"")

        self._runtime.merge(encode_job(job), done)
        outcome = decode_outcome((yield answer))
        if outcome.damage is not None:
            damage = outcome.damage
            self.damage = CorruptData(damage.file, damage.position, damage.what, tuple(damage.logs))
            log_output.error("%s; merging has stopped", self.damage)
            return None
        if outcome.no_space:
            if kind not in self._shortages:
                log_output.warning("a merge waits for room: %s", outcome.error)
            until = self._runtime.monotonic() + SHORT_SECONDS
            self._shortages[kind] = Shortage(self._free, self._files.deaths, until)
            if kind == "wal":
                self._writer.give_last_spare()
            self._space.look()
            return None
        if outcome.error is not None:
            self._rest(outcome.error)
            return None
        if not (yield from self._publish(outcome)):
            return None
        self._failures = 0
        self._shortages.pop(kind, None)
        return outcome

    def _publish(self, outcome: MergeOutcome) -> Steps[bool]:
        """Have what a job wrote kept as well as the commit that will name it; False when the store cannot be reached."""
        if not self._disk.is_shared:
            return True
        paths = [output.path for output in outcome.runs]
        if outcome.state_run is not None:
            paths.append(outcome.state_run)
        try:
            yield in_read_lane(self._runtime, lambda: self._disk.publish(paths))
        except StoreUnreachable as error:
            self._rest(str(error))
            return False
        return True

    def _rest(self, why: str) -> None:
        """Begin no job for a while, for longer with each failure."""
        self._failures += 1
        pause = min(RETRY_SECONDS_MAX, RETRY_SECONDS_MIN * 2**self._failures)
        self._rest_until = self._runtime.monotonic() + pause
        log_output.warning("merge failed and will be tried again in %.0f s: %s", pause, why)

    def _commit_files(self, changes: FileChanges) -> Answer[None]:
        """Change what is live, durably."""
        return self._sequencer.commit_own([(scopes.FILES, key, value) for key, value in changes])

    def _rooms(self, *, frees: bool) -> dict[str, int]:
        """Directories for runs and what a merge may write to each, the most first."""
        rooms = {path: self._space.for_merge(path, frees=frees) for path in self._directories.runs}
        return dict(sorted(rooms.items(), key=lambda item: -item[1]))

    def fits(self, runs: Sequence[RunFile], *, frees: bool) -> bool:
        """Whether there is room for what is alive in these runs."""
        return sum(run.live_bytes for run in runs) <= max(self._rooms(frees=frees).values())

    def _job(self, kind: Literal["wal", "runs"], tier: int, needed: int, *, frees: bool) -> MergeJob:
        settings, ledger = self._settings, self._ledger
        rooms = self._rooms(frees=frees)
        directories = [path for path, room in rooms.items() if room >= needed] or list(rooms)[:1]
        disk, wal, runs = self._disk, self._directories.wal, self._directories.runs
        adopt = not disk.is_shared and disk.same_filesystem(wal, runs[0])
        job = MergeJob(
            kind=kind,
            now_ms=self._runtime.now_ms(),
            starts=ledger.starts,
            classes=ledger.classes,
            key_indexed=sorted(ledger.key_indexed),
            limits=self._limits.merge,
            output_directories=directories,
            first_run_id=self._next_run,
            output_bytes_max=min(rooms[path] for path in directories),
            tier=tier,
            run_bytes_max=min(self._space.run_bytes_max(path) for path in directories),
            block_bytes=settings.block_bytes,
            adopt_share=settings.adopt_share,
            adopt=adopt,
        )
        self._next_run += RUN_IDS_PER_JOB
        return job

    def merge_wal(self, report: MaintainReport) -> Steps[bool]:
        """Make runs, and a state run, of the oldest sealed files: of one of them, where there is little room."""
        room = max(self._rooms(frees=False).values())
        files: list[WalFile] = []
        needed = 0
        for wal_file in self._backlog.files[: self._settings.merge_files_max]:
            # A state run written before a crash ends with a file; no job straddles its end.
            if files and (files[0].last <= self._state_to) != (wal_file.last <= self._state_to):
                break
            if files and needed + wal_file.end > room:
                break
            files.append(wal_file)
            needed += wal_file.end
        with_state = files[0].last > self._state_to
        job = self._job("wal", 0, needed, frees=len(files) == 1)
        job.wal = [WalInput(f.file.path, f.generation, f.first, f.last, f.end) for f in files]
        job.deleted = sorted(self._files.deleted_logs)
        job.state_directory = self._directories.state if with_state else None
        outcome = yield from self._merge("wal", job)
        if outcome is None:
            return False
        last = files[-1].last
        if with_state and outcome.state_run is not None:
            self._state_runs.append(outcome.state_run)
            self._state_to = last
        ages = (files[0].first, last)
        runs = yield in_read_lane(self._runtime, lambda: [self._open_run(output, ages) for output in outcome.runs])
        changes = [(scopes.MERGED_KEY, scopes.encode_number(last)), *self._entries(runs)]
        yield self._commit_files(changes)
        self._writer.merged(min(last, self._state_to))
        for run in runs:
            self._files.add_run(run)
        yield from self._drop_tails(place_of(files[-1].generation + 1, 0))
        self._backlog.remove(len(files))
        for wal_file in files:
            del self._files.wal[wal_file.generation]
        yield from self._finish_adoptions(runs)
        adopted = {run.adopted for run in runs}
        for wal_file in files:
            if wal_file.generation in adopted:
                wal_file.when_free(wal_file.file.close)
            else:
                wal_file.when_free(partial(self._writer.recycle, wal_file))
        report.merged_files += len(files)
        report.written_runs += len(runs)
        return True

    def _open_run(self, output: RunOutput, ages: tuple[int, int]) -> RunFile:
        file = self._disk.open(output.path, writable=False)
        directory = output.path.rpartition("/")[0]
        if output.adopted is not None:
            directory = self._directories.runs[0]
        return RunFile(file, RunIndex.load(file), directory, output.adopted, ages)

    def _entries(self, runs: list[RunFile]) -> FileChanges:
        name_of = self._directories.name_of
        return [
            (
                scopes.run_key(run.index.id),
                scopes.encode_run_entry(
                    scopes.RunEntry(
                        name_of(run.directory),
                        run.adopted,
                        run.index.retention_class,
                        run.index.tier,
                        run.bytes,
                        run.ages,
                    )
                ),
            )
            for run in runs
        ]

    def _drop_tails(self, place: int) -> Steps[None]:
        self._arrivals.drop_before(place)
        for part in in_parts(list(self._ledger.visible.values()), self._limits.upkeep.dropped_tails_per_turn):
            for state in part:
                tail = state.own_tail
                if tail is not None:
                    tail.drop_before(place)
                    if not len(tail):
                        state.own_tail = None
            yield turn(self._runtime)

    def _finish_adoptions(self, runs: list[RunFile]) -> Steps[None]:
        disk, directories = self._disk, self._directories
        moves = [
            (run.file.path, f"{run.directory}/{run_name(run.index.id)}") for run in runs if run.adopted is not None
        ]

        def move() -> None:
            for source, target in moves:
                disk.rename(source, target)
            for path in (directories.wal, directories.runs[0]):
                disk.sync_directory(path)

        if moves:
            yield in_read_lane(self._runtime, move)
            for run in runs:
                if run.adopted is not None:
                    run.file.path = f"{run.directory}/{run_name(run.index.id)}"

    def remove_dead(self, report: MaintainReport) -> Steps[None]:
        """Remove every run of which nothing is alive. That takes a commit, and no room."""
        yield from self._dead_space.count()
        dead = [run for run in self._files.runs.values() if run.is_dead]
        if dead:
            yield self._commit_files([(scopes.run_key(run.index.id), None) for run in dead])
            self._discard(dead, report)

    def most_dead_run(self) -> Steps[RunFile | None]:
        """The run of which the most is dead, if that is too much and there is room for the rest of it."""
        yield from self._dead_space.count()
        limit = self._settings.dead_share_max
        room = max(self._rooms(frees=True).values())
        dead = [run for run in self._files.runs.values() if _dead_share(run) > limit and run.live_bytes <= room]
        return max(dead, key=_dead_share, default=None)

    def rewrite(self, run: RunFile, report: MaintainReport) -> Steps[bool]:
        """Free a run of what is dead in it."""
        return (yield from self.merge_runs([run], run.index.tier, {}, [], report))

    def merge_runs(
        self,
        inputs: list[RunFile],
        tier: int,
        compact: dict[int, CompactionRule],
        notes: FileChanges,
        report: MaintainReport,
    ) -> Steps[bool]:
        """Make one series of runs of several; `notes` are committed with the swap."""
        visible = self._ledger.visible

        def look() -> list[int]:
            self._disk.bring([run.file.path for run in inputs])
            return [log for run in inputs for log in run.index.logs if log not in visible]

        try:
            deleted = yield in_read_lane(self._runtime, look)
        except StoreUnreachable as error:
            self._rest(str(error))
            return False
        needed = sum(run.live_bytes for run in inputs)
        job = self._job("runs", tier, needed, frees=len(inputs) == 1)
        job.runs = [RunInput(run.file.path, run.index.id) for run in inputs]
        job.deleted = deleted
        job.compact = compact
        outcome = yield from self._merge("runs", job)
        if outcome is None:
            return False
        ages = (min(run.ages[0] for run in inputs), max(run.ages[1] for run in inputs))
        runs = yield in_read_lane(self._runtime, lambda: [self._open_run(output, ages) for output in outcome.runs])
        changes: FileChanges = [(scopes.run_key(run.index.id), None) for run in inputs]
        yield self._commit_files([*changes, *self._entries(runs), *notes])
        for run in runs:
            self._files.add_run(run)
        self._discard(inputs, report)
        report.written_runs += len(runs)
        return True

    def _discard(self, runs: list[RunFile], report: MaintainReport) -> None:
        for run in runs:
            self._files.remove_run(run.index.id)
            run.when_free(partial(self._remove, run))
        report.removed_files += len(runs)

    def _remove(self, run: RunFile) -> None:
        """Remove the file of a dead run; one that was of the write-ahead log, and is large enough, becomes a spare file."""
        run.file.close()
        is_whole = run.adopted is not None and run.bytes >= REUSED_SHARE_MIN * self._settings.wal_file_bytes
        if is_whole and not self._ledger.full and not self._disk.is_shared:
            self._writer.reclaim(run.file.path)
        else:
            self._jobs.run(lambda: self._disk.remove(run.file.path), self._removed)

    def _removed(self, error: BaseException | None) -> None:
        if error is not None:
            log_output.warning("a dead run could not be removed: %s", error)
        self._space.room_came()

    def join_state(self) -> Steps[bool]:
        """Make one state run of all; which ones count is told by their names, so that no commit is needed."""
        inputs = list(self._state_runs)
        job = StateJob(
            inputs,
            self._directories.state,
            self._runtime.now_ms(),
            self._settings.producer_expiry_ms,
            self._limits.merge,
        )
        outcome = yield from self._merge("state", job)
        if outcome is None or outcome.state_run is None:
            return False
        self._state_runs = [outcome.state_run]

        def remove() -> None:
            for path in inputs:
                self._disk.remove(path)

        try:
            yield in_read_lane(self._runtime, remove)
        except StoreUnreachable as error:
            log_output.warning("state runs that were joined stay until the next start: %s", error)
        return True


def _dead_share(run: RunFile) -> float:
    return run.dead_bytes / max(1, run.bytes)
