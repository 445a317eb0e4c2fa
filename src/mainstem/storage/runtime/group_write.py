"""What the commit thread does: jobs that end with the first failure, and the one it does most, as an object.

As an object, so that a lane can do it without Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainstem.model.errors import EngineFailed
from mainstem.storage.contract import Buffer
from mainstem.storage.runtime.disk import DiskFile


class CommitGuard:
    """After one job of the commit thread has failed none is done any more.

    A second sync would succeed without writing anything, and prove what is lost. Used in the lane alone.
    """

    __slots__ = ("_broken",)

    def __init__(self) -> None:
        self._broken: BaseException | None = None

    def run(self, job: Callable[[], None]) -> None:
        """Do a job, unless an earlier one has failed."""
        if self._broken is not None:
            raise EngineFailed("an earlier write has failed") from self._broken
        try:
            job()
        except BaseException as error:
            self._broken = error
            raise


class GroupWrite:
    """Writes buffers at a position of a file, one after the other, and makes them durable if asked to."""

    __slots__ = ("_guard", "file", "parts", "position", "sync")

    def __init__(self, file: DiskFile, parts: Sequence[Buffer], position: int, sync: bool, guard: CommitGuard) -> None:
        self.file = file
        self.parts = parts
        self.position = position
        self.sync = sync
        self._guard = guard

    def __call__(self) -> None:
        """As a lane in Python does it."""
        self._guard.run(self.write)

    def write(self) -> None:
        """Without regard to what failed before."""
        self.file.write(self.parts, self.position)
        if self.sync:
            self.file.sync()
