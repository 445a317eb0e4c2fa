"""Writing groups: rolling from file to file, the pool of prepared files, and when to sync.

What to write where is decided on the engine's thread; the commit thread only executes it. A roll is part of the job of the
first group of the new file: the old file is synced, the new one gets its name and header, durably, and only
then the group is written.

With a `Shipping` beside the disk, a group is durable when it was shipped and written; the local file is never synced for it.

The last spare file is part of the reserve: while appends are taken it stays, and on a full disk it is the first to be used.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Callable
from typing import cast

from mainstem.model.errors import EngineFailed, OwnershipLost
from mainstem.storage.local.frame import SECTOR_BYTES, FileHeader, encode_file_header
from mainstem.storage.local.runs.stored_file import WAL_SUFFIX, WalFile, wal_name
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.local.wal.file_jobs import FileJobs
from mainstem.storage.local.wal.group_encoding import encode_group
from mainstem.storage.local.wal.shipping import Shipping
from mainstem.storage.runtime.disk import Disk, DiskFile
from mainstem.storage.runtime.group_write import CommitGuard, GroupWrite
from mainstem.storage.runtime.runtime import Done, Runtime, Timer
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.log_state import FLUSH_INTERVAL, FLUSH_OS, FLUSH_SYNC

log_output = logging.getLogger("mainstem.storage")

FILL_STRIDE_BYTES = 4 << 20
"""Spare files are synced in such steps: the commit thread's sync waits for what is queued at the disk before it."""
LARGE_GROUPS_MAX = 64
"""A full file of no more groups than these has large ones."""
BOTH = 2
FILE_BYTES_MIN = 4 * SECTOR_BYTES
"""A smaller file is not begun, however full the disk is."""


class WalWriter:
    """The write-ahead log's growing end."""

    def __init__(
        self,
        *,
        disk: Disk,
        runtime: Runtime,
        settings: EngineSettings,
        joined_bytes_max: int,
        directory: str,
        node: bytes,
        next_sequence: int,
        next_generation: int,
        spares: list[str],
        jobs: FileJobs,
        is_full: Callable[[], bool],
        on_room: Callable[[], None],
        on_sealed: Callable[[WalFile], None],
        on_failure: Callable[[EngineFailed], None],
        shipping: Shipping | None = None,
    ) -> None:
        self._disk = disk
        self._runtime = runtime
        self._settings = settings
        self._joined_bytes_max = joined_bytes_max
        self._directory = directory
        self._node = node
        self._next_sequence = next_sequence
        self._next_generation = next_generation
        self._spares = deque(spares)
        self._jobs = jobs
        self._preparing = False
        self._reclaiming = 0
        self._is_full = is_full
        self._on_room = on_room
        self._on_sealed = on_sealed
        self._on_failure = on_failure
        self._shipping = shipping
        self.proven = next_sequence - 1
        """Highest group known to be durable."""
        self._unsynced_bytes = 0
        self._sync_timer: Timer | None = None
        self._failed = False
        self._guard = CommitGuard()
        self.spare_names = 0
        self.announced_bytes = 0
        """Room of a file that is not made yet: the disk still calls it free."""
        self._groups_are_large = False
        """Whether those of the last file were."""
        self.rolls_next = False
        """Whether the next group begins another file, though there is room in this one."""
        self.active = self._open_first()

    # Files

    def _open_first(self) -> WalFile:
        wal_file, prepare = self._next_file(is_first=True)
        prepare()
        self.prepare_spares()
        return wal_file

    def _next_file(self, *, is_first: bool = False) -> tuple[WalFile, Callable[[], None]]:
        """The next file, and the work that makes it real on disk."""
        generation, first = self._next_generation, self._next_sequence
        self._next_generation += 1
        target = f"{self._directory}/{wal_name(generation)}"
        keeps_spare = len(self._spares) == 1 and not is_first and not self._is_full() and self._has_room()
        spare = self._spares.popleft() if self._spares and not keeps_spare else None
        disk, size = self._disk, self._settings.wal_file_bytes
        now_ms, node, directory = self._runtime.now_ms(), self._node, self._directory
        wal_file = WalFile(cast(DiskFile, _NotOpenYet(target)), generation, first, first - 1, SECTOR_BYTES, size)
        header = encode_file_header(FileHeader(generation, first, first - 1, node, now_ms))

        self.announced_bytes += size if spare is None else 0

        def prepare() -> None:
            if spare is None:
                # Out of stock, much is being written in large groups: to write zeros first would hold all of it up.
                file, wal_file.capacity = self._new_file(target, zeroed=is_first)
                self.announced_bytes -= size
            else:
                disk.rename(spare, target)
                file = disk.open(target)
            file.write([header], 0)
            file.sync()
            disk.sync_directory(directory)
            wal_file.file = file

        return wal_file, prepare

    def _has_room(self) -> bool:
        """Whether there is room for another file and the reserve."""
        usage = self._disk.usage(self._directory)
        return usage.free - self._settings.wal_file_bytes >= self._settings.reserve_bytes(usage.total)

    def _new_file(self, target: str, *, zeroed: bool) -> tuple[DiskFile, int]:
        """A new file and its size: on a full disk half of what is free, so that merges find room beside it."""
        size = self._settings.wal_file_bytes
        if not self._has_room():
            zeroed = False
            free = self._disk.usage(self._directory).free // SECTOR_BYTES * SECTOR_BYTES
            size = min(size, free, max(FILE_BYTES_MIN, free // 2))
        if size < FILE_BYTES_MIN:
            what = "no room for another file of the write-ahead log"
            raise OSError(errno.ENOSPC, what, self._directory)
        file = self._disk.open(target, create=True)
        try:
            file.fill(size) if zeroed else file.reserve(size)
        except OSError:
            file.close()
            self._disk.remove(target)
            raise
        return file, size

    def prepare_spares(self) -> None:
        """Fill a file with zeros, off the commit thread, while fewer are in stock than wanted.

        While groups are large, room is only reserved: their syncs hardly notice that it was never written to, and zeros would be
        as many bytes again at a disk that is busy.
        """
        if self._preparing or self._failed or len(self._spares) >= self._settings.wal_spare_files:
            return
        self._preparing = True
        disk = self._disk
        path = self._spare_path()
        reserves = self._groups_are_large

        def fill() -> None:
            if not self._has_room():
                raise OSError(errno.ENOSPC, "no room for a spare file beside the reserve", path)
            self._fill(disk.open(path, create=True), reserves=reserves)

        def done(error: BaseException | None) -> None:
            self._preparing = False
            if error is None:
                self._spares.append(path)
                self.prepare_spares()
            elif not (isinstance(error, OSError) and error.errno == errno.ENOSPC):
                self.fail(error)

        self._jobs.run(fill, done)

    def _spare_path(self) -> str:
        self.spare_names += 1
        return f"{self._directory}/spare-{self._next_generation:016x}-{self.spare_names}{WAL_SUFFIX}"

    def _fill(self, file: DiskFile, *, reserves: bool = False) -> None:
        """Zeros behind what is there, or room for them; a file that there is no room for is removed."""
        size = self._settings.wal_file_bytes
        try:
            if reserves:
                file.reserve(size)
                file.sync()
            else:
                for filled in range(file.size() // FILL_STRIDE_BYTES * FILL_STRIDE_BYTES, size, FILL_STRIDE_BYTES):
                    file.fill(min(filled + FILL_STRIDE_BYTES, size))
                    file.sync()
        except OSError:
            file.close()
            self._disk.remove(file.path)
            raise
        file.close()

    @property
    def last_sequence(self) -> int:
        """Number of the newest group."""
        return self._next_sequence - 1

    @property
    def spares(self) -> int:
        """How many prepared files are in stock."""
        return len(self._spares)

    @property
    def prepared_bytes(self) -> int:
        """What can be written without asking the disk for room."""
        return max(0, self.active.capacity - self.active.end) + self.spares * self._settings.wal_file_bytes

    def recycle(self, wal_file: WalFile) -> None:
        """Take a merged file back; surplus ones are removed, and on a full disk all but one."""
        path, whole = wal_file.file.path, wal_file.file.size() >= self._settings.wal_file_bytes
        wal_file.file.close()
        wanted = not self._spares if self._is_full() else not self._is_stocked
        if whole and wanted:
            self._spares.append(path)
        else:
            self._remove(path)

    def _remove(self, path: str) -> None:
        def done(error: BaseException | None) -> None:
            _note_failure(error)
            self._on_room()

        self._jobs.run(lambda: self._disk.remove(path), done)

    def reclaim(self, path: str) -> None:
        """Take the file of a dead run back that was one of ours before it was adopted: that is cheaper than to write another."""
        if self._is_stocked:
            self._remove(path)
            return
        disk, spare = self._disk, self._spare_path()
        self._reclaiming += 1

        def fill() -> None:
            disk.rename(path, spare)
            self._fill(disk.open(spare))

        def done(error: BaseException | None) -> None:
            self._reclaiming -= 1
            if error is None:
                self._spares.append(spare)
            else:
                _note_failure(error)

        self._jobs.run(fill, done)

    @property
    def _is_stocked(self) -> bool:
        stock = len(self._spares) + self._reclaiming
        return stock >= self._settings.wal_spare_files + self._settings.merge_files_max

    def merged(self, last: int) -> None:
        """Groups up to this one are in runs, and a durable commit says so."""
        if self._shipping is not None:
            self._shipping.merged(last)

    def shed_spares(self) -> None:
        """Give the space of prepared files back to a full disk; the last one is kept."""
        while len(self._spares) > 1:
            self._remove(self._spares.pop())

    def give_last_spare(self) -> None:
        """Give the space of the last prepared file to a merge that needs a little to free much. It brings files back.

        Only while half of the active file is left: what is committed meanwhile must find its room there.
        """
        active = self.active
        if self._spares and active.capacity - active.end >= active.capacity // 2:
            self._remove(self._spares.pop())

    # Groups

    def write(self, group: CommitGroup, durable: Callable[[CommitGroup, int, int], None]) -> None:
        """Put a group into the commit thread; `durable(group, generation, position of its first batch)` follows."""
        sequence = group.sequence = self._next_sequence
        time_ms = self._runtime.now_ms()
        wal_file = self.active
        joined = self._joined_bytes_max
        parts, size, data_offset = encode_group(group, wal_file.generation, sequence, self.proven, time_ms, joined)
        prepare: Callable[[], None] | None = None
        sealed: WalFile | None = None
        rolls = self.rolls_next or wal_file.end + size > wal_file.capacity
        if rolls and wal_file.last >= wal_file.first:
            sealed = wal_file
            wal_file, prepare = self._roll()
            parts, size, data_offset = encode_group(group, wal_file.generation, sequence, self.proven, time_ms, joined)
        self._next_sequence += 1
        position = wal_file.end
        wal_file.end += size
        wal_file.last = sequence
        shipping = self._shipping
        is_shipped = shipping is not None
        proves = is_shipped or self._must_sync(group, size)
        sync = proves and not is_shipped

        def write_in_turn() -> None:
            if sealed is not None:
                assert prepare is not None
                # Of a file that is shipped, too: it costs little, and only once for each file.
                sealed.file.sync()
                prepare()
            GroupWrite(wal_file.file, parts, position, sync, self._guard).write()

        def done(_: None, error: BaseException | None) -> None:
            if error is not None:
                self.fail(error)
                return
            if self._failed:
                return
            if proves:
                self.proven = max(self.proven, sequence)
            elif sealed is not None:
                self.proven = max(self.proven, sealed.last)
            if sealed is not None:
                self._on_sealed(sealed)
                self.prepare_spares()
            durable(group, wal_file.generation, position + data_offset)

        told: Done[None] = done if shipping is None else _when_both(done)
        if shipping is not None:
            shipping.ship(sequence, wal_file.generation, position, parts, told)
        # Behind a roll that has not been done yet there is no file to name: its job finds it when its turn comes.
        if sealed is None and not isinstance(wal_file.file, _NotOpenYet):
            self._runtime.write(GroupWrite(wal_file.file, parts, position, sync, self._guard), told)
        else:
            self._in_lane(write_in_turn, told)

    def _roll(self) -> tuple[WalFile, Callable[[], None]]:
        """Begin another file with the next group."""
        self.rolls_next = False
        sealed = self.active
        groups = sealed.last + 1 - sealed.first
        self._groups_are_large = sealed.end * LARGE_GROUPS_MAX >= groups * self._settings.wal_file_bytes
        self.active, prepare = self._next_file()
        return self.active, prepare

    # Syncs

    def _must_sync(self, group: CommitGroup, size: int) -> bool:
        """Whether the group's job ends with a sync; if not, whether a later one is due."""
        if group.rank == FLUSH_SYNC:
            self._synced()
            return True
        self._unsynced_bytes += size
        if group.rank == FLUSH_OS:
            return False
        assert group.rank == FLUSH_INTERVAL
        after_ms, after_bytes = self._intervals(group)
        if self._unsynced_bytes >= after_bytes:
            self._synced()
            return True
        if self._sync_timer is None:
            self._sync_timer = self._runtime.call_later(after_ms / 1000, self._sync_due)
        return False

    def _intervals(self, group: CommitGroup) -> tuple[int, int]:
        settings = self._settings
        after_ms, after_bytes = settings.flush_interval_ms, settings.flush_interval_bytes
        for state in {entry[6] for entry in group.entries}:
            config = state.config
            if config.flush_interval_ms is not None:
                after_ms = min(after_ms, config.flush_interval_ms)
            if config.flush_interval_bytes is not None:
                after_bytes = min(after_bytes, config.flush_interval_bytes)
        return after_ms, after_bytes

    def _synced(self) -> None:
        self._unsynced_bytes = 0
        if self._sync_timer is not None:
            self._sync_timer.cancel()
            self._sync_timer = None

    def _sync_due(self) -> None:
        self._sync_timer = None
        if not self._failed:
            self.sync(lambda: None)

    def sync(self, then: Callable[[], None]) -> None:
        """Make everything written so far durable."""
        self._synced()
        wal_file, sequence = self.active, self._next_sequence - 1

        def done(_: None, error: BaseException | None) -> None:
            if error is not None:
                self.fail(error)
                return
            self.proven = max(self.proven, sequence)
            then()

        self._in_lane(lambda: wal_file.file.sync(), done)

    def _in_lane(self, job: Callable[[], None], done: Done[None]) -> None:
        self._runtime.write(lambda: self._guard.run(job), done)

    def close(self, then: Callable[[], None]) -> None:
        """Begin nothing more; call when the commit thread has done all that was put into it."""
        self._synced()
        shipping = self._shipping
        last = then if shipping is None else lambda: shipping.close(then)
        self._runtime.write(lambda: None, lambda _, error: last())

    def fail(self, error: BaseException) -> None:
        """Write and answer nothing more."""
        # Never retried: after a failed sync nobody knows what the disk holds, and a second one may lie.
        if not self._failed:
            self._failed = True
            failure = error
            if not isinstance(error, OwnershipLost):
                failure = EngineFailed(f"writing to {self._directory} failed: {error}")
                failure.__cause__ = error
            self._on_failure(cast(EngineFailed, failure))


def _when_both(done: Done[None]) -> Done[None]:
    """Called for two jobs that keep their order, each among its like: the second to end, or to fail, is told."""
    ended = 0

    def one_done(_: None, error: BaseException | None) -> None:
        nonlocal ended
        ended += 1
        if error is not None or ended == BOTH:
            done(None, error)

    return one_done


def _note_failure(error: BaseException | None) -> None:
    """A file that could not be removed is only a waste of space; recovery finds it again."""
    if error is not None:
        log_output.warning("a surplus file could not be removed: %s", error)


class _NotOpenYet:
    """Stands for a file until its job in the commit thread has opened it; nothing reads it before."""

    def __init__(self, path: str) -> None:
        self.path = path

    def close(self) -> None:
        """There is nothing to close."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{self.path} is not open yet ({name})")
