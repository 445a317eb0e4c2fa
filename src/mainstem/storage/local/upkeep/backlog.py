"""Files of the write-ahead log that wait to be merged, and what callers are told while there are too many."""

from __future__ import annotations

from mainstem.model.errors import Overloaded
from mainstem.storage.local.runs.stored_file import WalFile
from mainstem.storage.sequencer.sequencer import Sequencer


class Backlog:
    """Sealed files, oldest first."""

    def __init__(self, sequencer: Sequencer, files_max: int) -> None:
        self._sequencer = sequencer
        self._files_max = files_max
        self.files: list[WalFile] = []

    def add(self, wal_file: WalFile) -> None:
        """One more file is sealed."""
        self.files.append(wal_file)
        self._weigh()

    def remove(self, count: int) -> None:
        """The oldest files are merged."""
        del self.files[:count]
        self._weigh()

    def _weigh(self) -> None:
        count = len(self.files)
        # Callers stop reading from clients long before commits are refused.
        self._sequencer.set_backlog(
            is_behind=count > self._files_max // 2,
            refusal=Overloaded(f"{count} files wait to be merged") if count > self._files_max else None,
        )
