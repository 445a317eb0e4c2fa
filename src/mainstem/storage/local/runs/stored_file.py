"""Files that readers may be reading: what is pinned is neither recycled nor closed."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.storage.local.runs.needed_blocks import stored_bytes
from mainstem.storage.local.runs.run_file import RunIndex
from mainstem.storage.runtime.disk import DiskFile

WAL_SUFFIX = ".wal"
RUN_SUFFIX = ".run"


def wal_name(generation: int) -> str:
    """Name of a file of the write-ahead log."""
    return f"{generation:016x}{WAL_SUFFIX}"


def run_name(run: int) -> str:
    """Name of a run."""
    return f"{run:016x}{RUN_SUFFIX}"


class StoredFile:
    """An open file with the number of reads that are under way on it. Engine's thread only."""

    __slots__ = ("_pins", "_when_free", "file")

    def __init__(self, file: DiskFile) -> None:
        self.file = file
        self._pins = 0
        self._when_free: Callable[[], None] | None = None

    def pin(self) -> None:
        """A read begins."""
        self._pins += 1

    def unpin(self) -> None:
        """A read has ended."""
        self._pins -= 1
        if self._pins == 0 and self._when_free is not None:
            action, self._when_free = self._when_free, None
            action()

    def when_free(self, action: Callable[[], None]) -> None:
        """Call, now or later, when no read is under way; no new one may begin."""
        if self._pins == 0:
            action()
        else:
            self._when_free = action


class WalFile(StoredFile):
    """A file of the write-ahead log."""

    __slots__ = ("capacity", "end", "first", "generation", "last")

    def __init__(self, file: DiskFile, generation: int, first: int, last: int, end: int, capacity: int = 0) -> None:
        super().__init__(file)
        self.capacity = capacity
        """Bytes that have their room on the disk, whether written yet or not; of a sealed file nobody asks."""
        self.generation = generation
        self.first = first
        self.last = last
        """Number of its last group; first - 1 while it has none."""
        self.end = end
        """Position after its last group."""


class RunFile(StoredFile):
    """A live run with its index."""

    __slots__ = ("adopted", "ages", "bytes", "checked", "dead_bytes", "directory", "index", "is_dead", "stays")

    def __init__(
        self, file: DiskFile, index: RunIndex, directory: str, adopted: int | None, ages: tuple[int, int]
    ) -> None:
        super().__init__(file)
        self.index = index
        self.directory = directory
        self.adopted = adopted
        self.bytes = stored_bytes(index)
        """Of its blocks; one that several logs share counts once."""
        self.ages = ages
        """First and last group of the write-ahead log from which it came."""
        self.dead_bytes = 0
        self.checked = 0
        """Of which count of trims `dead_bytes` and `is_dead` speak."""
        self.is_dead = False
        """Whether all of its logs are deleted, or begin behind it. One without bytes may still say where a log ends."""
        self.stays = False
        """Whether it is left alone in its tier, because it lies among large runs."""

    @property
    def live_bytes(self) -> int:
        """What a merge of it would copy."""
        return self.bytes - self.dead_bytes
