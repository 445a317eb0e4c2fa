"""Room on the disk: when appends are refused, and what the reserve is for.

The reserve is free space that appends leave alone: `disk_reserve_bytes`, or what `disk_hard_mark` leaves of the disk, if that is
more. A start, deletions and acknowledgements, and merges that give space back may use it.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from mainstem.storage.contract import MaintainReport
from mainstem.storage.local.directories import Directories
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.local.upkeep.early_deletion import EarlyDeletion
from mainstem.storage.local.wal.writer import FILE_BYTES_MIN, WalWriter
from mainstem.storage.runtime.disk import Disk, DiskUsage
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.runtime.steps import Steps, in_read_lane
from mainstem.storage.sequencer.sequencer import Sequencer

log_output = logging.getLogger("mainstem.storage")

STATE_MARGIN_SHARE = 1 / 4
"""Of a file of the write-ahead log: on a full disk, state other than deletions leaves this much of it unwritten."""
DELETION_MARGIN_SHARE = 1 / 16
"""What deletions leave unwritten, for the engine's own commits, by which dead files are removed, and for the next start."""
STATE_MARGIN_MIN, DELETION_MARGIN_MIN = 3 * FILE_BYTES_MIN, 2 * FILE_BYTES_MIN


class _Room(NamedTuple):
    """One of the engine's directories: how full its file system is."""

    usage: DiskUsage
    has_wal: bool
    """Whether the write-ahead log is on the same file system."""


class Space:
    """Watches the fullest of the engine's file systems."""

    def __init__(
        self,
        *,
        disk: Disk,
        runtime: Runtime,
        settings: EngineSettings,
        directories: Directories,
        sequencer: Sequencer,
        writer: WalWriter,
        early_deletion: EarlyDeletion,
    ) -> None:
        self._disk = disk
        self._runtime = runtime
        self._settings = settings
        self._sequencer = sequencer
        self._ledger = sequencer.ledger
        self._writer = writer
        self._paths = [(path, disk.same_filesystem(path, directories.wal)) for path in directories.all()]
        self._wal_free = 0
        self.early_deletion = early_deletion
        self.usage: DiskUsage = disk.usage(directories.root)
        self.look()

    def check(self, report: MaintainReport) -> Steps[None]:
        """Refuse or take appends again, and make room where it is short."""
        used = self._weigh((yield in_read_lane(self._runtime, self._rooms)))
        if self._ledger.full:
            self._writer.shed_spares()
        else:
            self._writer.prepare_spares()
        high_mark = self._settings.disk_high_mark
        if high_mark is not None and used >= high_mark:
            yield from self.early_deletion.take_oldest(report)

    def look(self) -> None:
        """Decide anew, at once: a fast writer fills a disk between two checks, and a removed file gives room back."""
        self._weigh(self._rooms())

    def room_came(self) -> None:
        """A file was removed: appends that were refused for it need not wait for the next maintenance."""
        if self._ledger.full:
            self.look()

    def for_merge(self, path: str, *, frees: bool) -> int:
        """Bytes that a merge may write to a directory for runs. Only one that gives space back may use the reserve."""
        usage = self._disk.usage(path)
        # The next files of the write-ahead log must still find their room: appends go on beside the merge.
        wanted = self._settings.wal_file_bytes
        if not self._ledger.full:
            wanted = self._sequencer.pending_bytes + 2 * wanted
        kept = max(0, wanted + self._writer.announced_bytes - self._writer.prepared_bytes)
        if not frees:
            kept = max(kept, self._settings.reserve_bytes(usage.total))
        return max(0, usage.free - kept)

    def run_bytes_max(self, path: str) -> int:
        """Size of a run. None is larger than the reserve, so that what is alive in it can be rewritten on a full disk."""
        settings = self._settings
        reserve = settings.reserve_bytes(self._disk.usage(path).total)
        return min(settings.run_bytes_max, max(reserve, settings.wal_file_bytes))

    def limit_state(self) -> None:
        """Say how much may still be written to the write-ahead log while the disk is full.

        A commit that finds no room ends the engine, and leaves nothing for the next start: it is refused before.
        """
        file_bytes = self._settings.wal_file_bytes
        room = self._writer.prepared_bytes + self._wal_free // 2 - self._sequencer.pending_bytes
        self._ledger.state_room = room - max(STATE_MARGIN_MIN, int(file_bytes * STATE_MARGIN_SHARE))
        self._ledger.deletion_room = room - max(DELETION_MARGIN_MIN, int(file_bytes * DELETION_MARGIN_SHARE))

    def _rooms(self) -> list[_Room]:
        return [_Room(self._disk.usage(path), has_wal) for path, has_wal in self._paths]

    def _weigh(self, rooms: list[_Room]) -> float:
        """Decide whether appends are refused; answers the share in use."""
        settings, writer, ledger = self._settings, self._writer, self._ledger
        spares, file_bytes = writer.spares, settings.wal_file_bytes
        # A spare file beyond the one that is kept goes as soon as its space is wanted.
        surplus = max(0, spares - 1) * file_bytes - writer.announced_bytes
        usages = [usage._replace(free=max(0, usage.free + surplus * has_wal)) for usage, has_wal in rooms]
        used = max(1 - usage.free / max(1, usage.total) for usage in usages)
        self.usage = min((usage for usage, _ in rooms), key=lambda usage: usage.free / max(1, usage.total))
        wal_free = min(usage.free for usage, has_wal in rooms if has_wal)
        self._wal_free = max(0, wal_free - writer.announced_bytes)
        # What is under way can no longer be refused: it must find room, in this file, in spare ones or in new ones.
        is_tight = self._wal_free + spares * file_bytes < self._sequencer.pending_bytes + 2 * file_bytes
        full = is_tight or any(usage.free < settings.reserve_bytes(usage.total) for usage in usages)
        if full != ledger.full:
            log_output.warning(
                "appends are %s: %.1f %% of the disk is in use", "refused" if full else "taken", used * 100
            )
        ledger.full = full
        if full:
            self.limit_state()
        return used
