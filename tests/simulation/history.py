"""Random histories from a seed: what clients do, what the disk does, and when the power fails."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from mainstem.model.errors import CorruptBatch, InvalidBatch, MainstemError
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Budget,
    ConfigureLog,
    CreateLog,
    DeleteLog,
    Edge,
    Fence,
    Flush,
    KeyAfter,
    LogConfig,
    MoveFloor,
    Mutation,
    Place,
    ReadHint,
    Refer,
    TimeAfter,
    TrimLog,
)
from mainstem.testing.disk import Interrupted, Operation, PowerLoss, ProcessKilled
from mainstem.wire.record_batch import NO_TIMESTAMP, encode_batch, encode_marker
from tests.simulation.invariants import DeadSpaceComesBack, FullDisksHeal
from tests.simulation.model import SEQUENCES, LogModel, SentBatch, SentCommit, SentRecord
from tests.simulation.temper import Temper
from tests.simulation.world import World

SCOPES = ("groups", "cursors")
ROLES = ("leader", "janitor")
KEYS = tuple(b"key-%d" % number for number in range(6))
LOGS_MAX = 6
BATCH_BYTES_MAX = 12_000
OLD_EPOCH_MS = 60_000
COMMITS_UNTIL_FULL = 60
EMPTYING_ROUNDS = 8
FILES_WHEN_EMPTY = 4
"""Files of the write-ahead log that an engine without any data has, with the reserve and what may be under way."""
STATE_BYTES_MAX = 24_000


class History:
    """Draws one action after the other and does it to a world."""

    def __init__(self, rng: Random, temper: Temper, world: World) -> None:
        self._rng = rng
        self._temper = temper
        self._world = world
        self._next_log = 1
        self._batches: dict[tuple[int, int, int, int], SentBatch] = {}
        """Log, producer, epoch, first sequence -> what was sent: for repeating it."""
        self._actions = [name for name, weight in temper.weights.items() for _ in range(weight)]

    def run(self) -> None:
        """All of it, to a last crash and a last look at everything."""
        world, temper = self._world, self._temper
        world.overloads = temper.tight
        world.serial = temper.full
        world.early_deletion = temper.early_deletion
        self._protect(self._create_logs)
        for _ in range(temper.actions):
            self._protect(self._act)
        self._protect(self._finish)
        self._protect(lambda: world.restart(self._rng.choice((PowerLoss, ProcessKilled))))
        self._protect(world.verify_all)

    def _protect(self, action: Callable[[], None]) -> None:
        """Do something; when the process ends in the midst of it, recover and go on with the next."""
        world = self._world
        try:
            action()
            if world.failed:
                world.drain()
                self._after_failure()
                world.restart(ProcessKilled)
        except Interrupted as interrupted:
            self._recover(type(interrupted))
        world.stop_if_broken()

    def _recover(self, cause: type[Interrupted]) -> None:
        world = self._world
        if self._rng.random() < 0.3:
            world.recovery_interrupts = self._temper.recovery_interrupts
        world.restart(cause)
        if self._rng.random() < 0.5:
            self._protect(world.verify_all)

    def _after_failure(self) -> None:
        """A failed engine still answers, and must not show what never became durable."""
        world = self._world
        for scope in SCOPES:
            world.load(scope)
        for log in list(world.model.logs):
            world.offset_at(log, Edge.END)
        world.drain()

    def _finish(self) -> None:
        self._world.disk.heal()
        self._world.drain()
        self._world.verify_all()

    def _act(self) -> None:
        rng, world = self._rng, self._world
        getattr(self, "_do_" + rng.choice(self._actions))()
        if world.serial:
            world.drain()
        elif self._temper.steps_max:
            world.runtime.run(rng.randrange(self._temper.steps_max))
        if rng.random() < self._temper.probe_share and not world.failed:
            world.probe(power=rng.random() < 0.7)

    # Commits

    def _do_commit(self) -> None:
        world = self._world
        count = 1 if world.serial else self._rng.randint(1, self._temper.commits_max)
        world.commit(*[self._draw_commit() for _ in range(count)])

    def _draw_commit(self) -> SentCommit:
        rng, world, temper = self._rng, self._world, self._temper
        appends: list[SentBatch] = []
        if world.model.logs:
            for _ in range(rng.randint(1, temper.appends_max)):
                appends.append(self._draw_append())
        state: list[Mutation] = []
        if rng.random() < temper.state_share or not appends:
            state = [self._draw_mutation() for _ in range(rng.randint(1, 3))]
            if rng.random() < 0.3:
                appends = []
        refers: list[Refer] = []
        plain = [place for place, batch in enumerate(appends) if not batch.transactional]
        targets = [log.id for log in world.model.logs.values() if not log.compacted]
        if plain and targets and rng.random() < 0.15:
            refers = [Refer(rng.choice(targets), rng.choice(plain)) for _ in range(rng.randint(1, 2))]
        elif plain and rng.random() < temper.fan_out_share:
            refers = [Refer(log, place) for place in plain for log in targets if log != appends[place].log]
        # Near the limit an engine may count what it adds itself; `_spoil` goes far beyond it.
        while sum(len(batch.data) for batch in appends) > temper.settings.commit_bytes_max // 2:
            appends.pop()
            refers = []
        commit = world.sent(appends=tuple(appends), refers=tuple(refers), state=tuple(state))
        if world.model.epochs and rng.random() < 0.2:
            role = rng.choice(sorted(world.model.epochs))
            stale = rng.random() < temper.invalid_share
            commit = commit._replace(fences=(Fence(role, world.model.epochs[role] - stale),))
        if rng.random() < temper.invalid_share:
            commit = self._spoil(commit)
        if len(world.model.logs) < LOGS_MAX and rng.random() < 0.03:
            commit = self._with_new_log(commit)
        return commit

    def _with_new_log(self, commit: SentCommit) -> SentCommit:
        """A log that is created and written in one Commit."""
        create = CreateLog(self._new_log_id(), LogConfig(delete=False, batch_bytes_max=BATCH_BYTES_MAX))
        batch = self._encode(create.log, [self._draw_record(None) for _ in range(2)])
        return commit._replace(appends=(*commit.appends, batch), changes=(create,))

    def _draw_mutation(self) -> Mutation:
        rng = self._rng
        value = None if rng.random() < 0.3 else b"%d" % self._world.next_ordinal + bytes(rng.choice((0, 0, 40, 700)))
        return Mutation(rng.choice(SCOPES), rng.choice(KEYS), value)

    def _draw_append(self) -> SentBatch:
        rng, temper = self._rng, self._temper
        log = rng.choice(list(self._world.model.logs.values()))
        count = rng.randint(1, temper.records_max)
        records = [self._draw_record(log) for _ in range(count)]
        if not temper.producers or rng.random() < 0.3:
            return self._encode(log.id, records)
        return self._draw_idempotent(log, rng.randrange(temper.producers), records)

    def _draw_record(self, log: LogModel | None) -> SentRecord:
        rng = self._rng
        now = self._world.clock.now_ms()
        timestamp = now + rng.choice((0, 0, 0, 0, -1, 5, -OLD_EPOCH_MS))
        if rng.random() < 0.02:
            timestamp = NO_TIMESTAMP
        keyed = log is not None and log.config.compact
        key = rng.choice(KEYS) if keyed or rng.random() < 0.5 else None
        if keyed and rng.random() < 0.2:
            return SentRecord(timestamp, key, None)
        value = b"%d." % self._world.next_ordinal + rng.randbytes(rng.choice(self._temper.value_bytes))
        return SentRecord(timestamp, key, value)

    def _draw_idempotent(self, log: LogModel, producer: int, records: list[SentRecord]) -> SentBatch:
        rng = self._rng
        known = log.producers.get(producer)
        if known is None:
            sequence = rng.choice((0, 0, 0, SEQUENCES - 2))
            zero = not self._temper.expiring and (sequence == 0 or rng.random() < 0.3)
            return self._idempotent(log, producer, 0, sequence, records, first_sequence_zero=zero)
        if producer in log.open and rng.random() < 0.3:
            return self._marker(log, producer, known.epoch + (rng.random() < 0.1), commit=rng.random() < 0.5)
        chance = 0.5 if self._temper.expiring else rng.random()
        if chance < 0.15 and known.recent:
            first, _, _ = rng.choice(known.recent)
            repeated = self._batches.get((log.id, producer, known.epoch, first))
            if repeated is not None:
                return repeated
        if chance < 0.18:
            repeated = self._batches.get((log.id, producer, known.epoch, 0))
            if repeated is not None:
                return repeated
        epoch, sequence = known.epoch, (known.last + 1) % SEQUENCES
        if chance > 0.97:
            sequence = (sequence + rng.randint(1, 9)) % SEQUENCES
        elif chance > 0.94 and producer not in log.open:
            epoch, sequence = epoch + 1, 0
        elif chance > 0.92:
            epoch -= 1
        return self._idempotent(log, producer, max(epoch, 0), sequence, records)

    def _idempotent(
        self,
        log: LogModel,
        producer: int,
        epoch: int,
        sequence: int,
        records: list[SentRecord],
        *,
        first_sequence_zero: bool = False,
    ) -> SentBatch:
        # Producer 1 always writes in transactions, producer 2 sometimes, producer 0 never.
        transactional = self._temper.transactional and (producer == 1 or producer in log.open)
        data = encode_batch(
            [(offset, *record, ()) for offset, record in enumerate(records)],
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        batch = SentBatch(
            log.id,
            bytes(data),
            tuple(records),
            producer,
            epoch,
            sequence,
            transactional,
            first_sequence_zero=first_sequence_zero,
        )
        self._batches.setdefault((log.id, producer, epoch, sequence), batch)
        return batch

    def _marker(self, log: LogModel, producer: int, epoch: int, *, commit: bool) -> SentBatch:
        data = encode_marker(producer, epoch, commit=commit, timestamp_ms=0)
        record = SentRecord(0, None, None)
        return SentBatch(log.id, bytes(data), (record,), producer, epoch, -1, transactional=True, marker=commit)

    def _encode(self, log: int, records: list[SentRecord]) -> SentBatch:
        data = encode_batch([(offset, *record, ()) for offset, record in enumerate(records)])
        return SentBatch(log, bytes(data), tuple(records))

    def _spoil(self, commit: SentCommit) -> SentCommit:
        """Make one thing wrong with it."""
        rng = self._rng
        chance = rng.random()
        if chance < 0.15:
            state = (*commit.state, Mutation("engine/logs", b"x", b""))
            return commit._replace(state=state)
        if not commit.appends:
            return commit
        place = rng.randrange(len(commit.appends))
        batch = commit.appends[place]
        if chance < 0.3:
            batch = batch._replace(log=999_999)
        elif chance < 0.4:
            filler = rng.randbytes(self._temper.settings.commit_bytes_max // 2)
            large = self._encode(batch.log, [SentRecord(0, KEYS[0], filler)])
            return commit._replace(appends=(*commit.appends, large, large))
        elif chance < 0.5:
            filler = rng.randbytes(BATCH_BYTES_MAX)
            batch = self._encode(batch.log, [SentRecord(0, KEYS[0], filler)])
            return commit._replace(appends=(batch,), refers=())
        else:
            data = bytearray(batch.data)
            flaw: type[MainstemError] = CorruptBatch
            if chance < 0.7:
                data[rng.randrange(61, len(data))] ^= 1 << rng.randrange(8)
            elif chance < 0.85:
                flaw = InvalidBatch
                data[16] = rng.choice((0, 1, 3))
            else:
                flaw = InvalidBatch
                del data[rng.randrange(1, len(data)) :]
            batch = batch._replace(data=bytes(data), flaw=flaw)
        appends = (*commit.appends[:place], batch, *commit.appends[place + 1 :])
        return commit._replace(appends=appends)

    # Logs

    def _new_log_id(self) -> int:
        self._next_log += 1
        return self._next_log - 1

    def _draw_config(self) -> LogConfig:
        rng, temper = self._rng, self._temper
        flush: Flush | None = rng.choice(("sync", "interval", "os", None)) if temper.lazy_logs else None
        interval_ms, interval_bytes = rng.choice(((None, None), (None, None), (3, None), (None, 1500)))
        if temper.compacted and rng.random() < 0.6:
            return LogConfig(
                flush=flush,
                flush_interval_ms=interval_ms,
                flush_interval_bytes=interval_bytes,
                compact=True,
                delete=False,
                dirty_ratio_min=rng.choice((0.0, 0.5)),
                tombstone_retention_ms=rng.choice((0, 86_400_000)),
                segment_ms=rng.choice((1, 604_800_000)),
                key_index=rng.random() < 0.3,
                batch_bytes_max=BATCH_BYTES_MAX,
            )
        if temper.retained and rng.random() < 0.7:
            return LogConfig(
                flush=flush,
                flush_interval_ms=interval_ms,
                flush_interval_bytes=interval_bytes,
                retention_ms=rng.choice((None, 50, 30_000)),
                retention_bytes=rng.choice((None, 1000, 6000)),
                acknowledged=rng.choice(("ignore", "hold", "release")),
                batch_bytes_max=BATCH_BYTES_MAX,
            )
        delete = temper.full and rng.random() < 0.5
        return LogConfig(
            flush=flush,
            flush_interval_ms=interval_ms,
            flush_interval_bytes=interval_bytes,
            delete=delete,
            key_index=rng.random() < 0.2,
            batch_bytes_max=BATCH_BYTES_MAX,
        )

    def _create_logs(self) -> None:
        world = self._world
        for _ in range(self._temper.logs):
            world.alter(world.change(CreateLog(self._new_log_id(), self._draw_config())))
            if world.serial:
                world.drain()

    def _do_alter(self) -> None:
        rng, world = self._rng, self._world
        chance = rng.random()
        logs = list(world.model.logs.values())
        if chance < 0.3 and len(logs) < LOGS_MAX:
            created = CreateLog(self._new_log_id(), self._draw_config())
            world.alter(world.sent(changes=(created,), state=(self._draw_mutation(),)))
        elif not logs:
            return
        elif chance < 0.35:
            used = [log.id for log in logs] + list(world.model.deleted)
            world.alter(world.change(CreateLog(rng.choice(used))))
        elif chance < 0.4:
            world.alter(world.change(MoveFloor(888_888, 1)))
        elif chance < 0.5 and len(logs) > 1:
            world.alter(world.change(DeleteLog(rng.choice(logs).id)))
        elif chance < 0.6:
            self._reconfigure(rng.choice(logs))
        else:
            log = rng.choice(logs)
            world.alter(world.change(MoveFloor(log.id, rng.randint(0, log.end + 3))))

    def _reconfigure(self, log: LogModel) -> None:
        # What kind of log it is stays: only limits change.
        old = log.config
        limit = self._rng.choice((BATCH_BYTES_MAX, BATCH_BYTES_MAX // 2))
        retention = self._rng.choice((None, 50, 5000)) if old.delete and log.retained else old.retention_ms
        config = LogConfig(
            flush=old.flush,
            flush_interval_ms=old.flush_interval_ms,
            flush_interval_bytes=old.flush_interval_bytes,
            batch_bytes_max=limit,
            retention_ms=retention,
            retention_bytes=old.retention_bytes,
            acknowledged=old.acknowledged,
            delete=old.delete,
            compact=old.compact,
            tombstone_retention_ms=old.tombstone_retention_ms,
            dirty_ratio_min=old.dirty_ratio_min,
            key_index=old.key_index,
        )
        self._world.alter(self._world.change(ConfigureLog(log.id, config)))

    def _do_trim(self) -> None:
        world = self._world
        log = self._some_log()
        if log is not None:
            world.trim(world.change(TrimLog(log.id, self._rng.randint(0, log.end + 2))))

    def _some_log(self) -> LogModel | None:
        logs = list(self._world.model.logs.values())
        return self._rng.choice(logs) if logs else None

    # Reading

    def _do_read(self) -> None:
        rng, world = self._rng, self._world
        log = self._some_log()
        if log is None or rng.random() < 0.02:
            world.read(777_777, 0, 1, ReadHint.TAIL)
            return
        low = max(log.start, world.start_seen.get(log.id, 0))
        offset = rng.randint(low, max(low, log.end))
        if rng.random() < 0.1:
            offset = rng.choice((-1, 0, log.end + 1, log.end + 9))
        elif rng.random() < 0.3:
            offset = max(low, log.end - 3)
        world.read(log.id, offset, rng.choice((0, 1, 200, 2000, 50_000)), rng.choice(tuple(ReadHint)))

    def _do_offset_at(self) -> None:
        rng, world = self._rng, self._world
        log = self._some_log()
        if log is None:
            return
        now = world.clock.now_ms()
        place: Place = rng.choice(tuple(Edge))
        if rng.random() < 0.3:
            place = TimeAfter(now - rng.choice((0, 3, 2000, OLD_EPOCH_MS, 2 * OLD_EPOCH_MS)))
        elif rng.random() < 0.4:
            since = now - rng.choice((10, 1000)) if rng.random() < 0.2 else None
            place = KeyAfter(rng.choice(KEYS), rng.randint(0, log.end), since)
        world.offset_at(log.id, place)

    def _do_load(self) -> None:
        self._world.load(self._rng.choice(SCOPES))

    def _do_watch(self) -> None:
        rng, world = self._rng, self._world
        log = self._some_log()
        live = [watcher for watcher in world.watchers if not watcher.closed]
        if not live or rng.random() < 0.2:
            world.watch()
        elif log is None or rng.random() < 0.15:
            rng.choice(live).close()
        elif rng.random() < 0.8:
            rng.choice(live).add(log.id)
        else:
            rng.choice(live).remove(log.id)

    def _do_lease(self) -> None:
        rng = self._rng
        self._world.lease(rng.choice(ROLES), rng.choice((1, 1000)), renew=rng.random() < 0.3)

    # Time, maintenance, trouble

    def _do_maintain(self) -> None:
        self._world.maintain(Budget())

    def _do_steps(self) -> None:
        self._world.runtime.run(self._rng.randint(1, 30))

    def _do_drain(self) -> None:
        self._world.drain()

    def _do_rest(self) -> None:
        self._world.rest(self._rng.choice((1, 20, 120, 3000)))

    def _do_interrupt(self) -> None:
        if self._world.disk.interrupt_at is None:
            self._world.note("interruption comes soon")
            self._world.interrupt(self._rng.randint(1, 40))

    def _do_stop(self) -> None:
        self._recover(self._rng.choice((PowerLoss, ProcessKilled)))

    def _do_close(self) -> None:
        self._world.close()

    def _do_fault(self) -> None:
        kinds: tuple[Operation, ...] = ("read", "write", "sync", "name", "sync_directory")
        kind = self._rng.choice(kinds)
        self._world.note("the next %s fails", kind)
        self._world.disk.arm(kind, self._rng.randint(1, 5))

    def _do_fill(self) -> None:
        world = self._world
        if not world.disk.is_limited:
            self._limit_disk(self._rng.randint(0, 40_000))
        else:
            world.note("the disk has room again")
            world.disk.heal()
            # One call may have begun before there was room; the second has not.
            for _ in range(2):
                world.maintain(Budget())
                world.drain()
            world.full = False

    def _limit_disk(self, free: int) -> None:
        world = self._world
        world.full = world.was_full = True
        world.pressed = world.early_deletion
        world.disk.capacity = world.disk.used + free
        world.note("the disk has room for %s bytes", free)

    def _do_empty(self) -> None:
        """Fill a disk, delete everything on it, and expect it to have room again."""
        world = self._world
        if not world.disk.is_limited:
            self._limit_disk(FILES_WHEN_EMPTY * self._temper.settings.wal_file_bytes + STATE_BYTES_MAX)
            for _ in range(COMMITS_UNTIL_FULL):
                if not world.engine.is_full:
                    self._do_commit()
                    world.drain()
            FullDisksHeal.require(
                not world.failed or world.disk.faults, "an engine ends because it has filled its disk"
            )
            if self._rng.random() < 0.5:
                world.restart(ProcessKilled)
        if world.failed:
            return
        for log in list(world.model.logs.values()):
            if log.retained and log.config.acknowledged != "ignore":
                emptied: Answer[Any] = world.alter(world.change(MoveFloor(log.id, log.end)))
            else:
                emptied = world.trim(world.change(TrimLog(log.id, log.end)))
            world.drain()
            if emptied.error is not None or log.stable < log.end:
                return  # others have taken what deletion needs, or a transaction is open
        for _ in range(EMPTYING_ROUNDS):
            world.maintain(Budget())
            world.drain()
            world.rest(1_000)
        files = FILES_WHEN_EMPTY * self._temper.settings.wal_file_bytes
        if world.failed or world.disk.capacity < files + STATE_BYTES_MAX:
            return
        free = world.disk.capacity - world.disk.used
        DeadSpaceComesBack.require(not world.engine.is_full, f"all is deleted, {free} bytes are free, and it is full")

    def _do_recycle(self) -> None:
        """Leave groups behind in a file, use the file again, and see whether one of them comes back.

        Without a sync between them, a power loss can take one group and spare the next ones: these are cut off with it and
        given up, but they still lie there, whole. Their numbers are given to new groups in the next file. When the
        old file is used again soon enough, the next number in it may be one that was given up, and if the groups before it are
        of the right size, the old group lies exactly where the next one is looked for.
        """
        rng, world = self._rng, self._world
        if not world.model.logs:
            self._create_logs()
        world.drain()
        world.restart(ProcessKilled)
        for _ in range(rng.randint(9, 14)):
            self._commit_value(10)
        world.restart(PowerLoss)
        world.maintain(Budget())
        world.drain()
        for _ in range(rng.randint(4, 9)):
            self._commit_value(rng.choice((10, 1500, 3000, 3500, 4000)))
            world.probe(power=False)

    def _commit_value(self, size: int) -> None:
        """One group with one record."""
        world = self._world
        log = next(iter(world.model.logs))
        value = SentRecord(world.clock.now_ms(), None, self._rng.randbytes(size))
        world.commit(world.sent(appends=(self._encode(log, [value]),)))
        world.drain()
