"""The groups of one file of the write-ahead log, and how they end: as recovery would read them, but without stopping the show.

Recovery's rule (docs/storage-format.md): where a later file goes on, every group up to there must be good. In the newest file a
bad group is corruption when anything good calls it proven, else a torn tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from mainstem.storage.local.frame import (
    SECTOR_BYTES,
    FileHeader,
    frame_began,
)
from mainstem.storage.local.wal.stored_group import BadGroup, StoredGroup, decode_group, frames_after

Verdict: TypeAlias = Literal["end", "torn", "damaged", "broken"]
"""end: nothing more was written. torn: something was begun, and never acknowledged. damaged: what is bad was durable once.
broken: a later file goes on, but this one does not reach it; damage, if anybody needs what is missing."""


class Ending(NamedTuple):
    """What comes after the last good group."""

    verdict: Verdict
    position: int
    """Where it is bad; not always where the group begins."""
    sequence: int
    """The group that would be next."""
    what: str
    logs: tuple[int, ...]


class WalScan:
    """One file, read whole. Iterate over `groups`, then ask for the ending."""

    def __init__(self, content: memoryview, header: FileHeader, following: int | None) -> None:
        self.content = content
        self.header = header
        self._following = following
        """Number of the first group of the next file."""
        self.ending = Ending("end", SECTOR_BYTES, header.first, "", ())

    def groups(self) -> Iterator[StoredGroup]:
        """All good groups, in order."""
        position, sequence = SECTOR_BYTES, self.header.first
        while self._following is None or sequence < self._following:
            try:
                group = decode_group(self.content, position, self.header.generation, sequence)
            except BadGroup as bad:
                self.ending = self._judge(bad, position, sequence)
                return
            yield group
            position, sequence = group.end, sequence + 1
        self.ending = Ending("end", position, sequence, "", ())

    def _judge(self, bad: BadGroup, position: int, sequence: int) -> Ending:
        if self._following is not None:
            return Ending("broken", bad.position, sequence, bad.what, bad.logs)
        frames = list(frames_after(self.content, position, self.header.generation))
        proven = max(self.header.proven, max((frame.proven for frame in frames), default=0))
        if proven >= sequence:
            return Ending(
                "damaged", bad.position, sequence, f"{bad.what} (group {sequence}, proven {proven})", bad.logs
            )
        begun = bool(frames) or frame_began(self.content, position, self.header.generation)
        return Ending("torn" if begun else "end", position, sequence, bad.what, bad.logs)
