"""How many bytes of a run some log needs, where several logs may point to the same block."""

from __future__ import annotations

from mainstem.storage.local.runs.run_file import RunIndex


class NeededBlocks:
    """Blocks of a run, each stored one counted once."""

    def __init__(self, index: RunIndex) -> None:
        self._positions, self._sizes = index.block_positions, index.block_sizes
        self._known: set[bytes] = set()
        """Stretches of positions that were taken: logs of one fan-out have equal ones, and need not be looked at again."""
        self._needed: dict[int, int] = {}

    def add(self, first: int, stop: int) -> None:
        """A log needs these."""
        positions = self._positions[first:stop]
        key = positions.tobytes()
        if key not in self._known:
            self._known.add(key)
            self._needed.update(zip(positions, self._sizes[first:stop], strict=True))

    @property
    def bytes(self) -> int:
        """All of them."""
        return sum(self._needed.values())


def stored_bytes(index: RunIndex) -> int:
    """Bytes of all blocks of a run, as they lie on disk."""
    if not index.is_shared:
        return sum(index.bytes)
    blocks = NeededBlocks(index)
    for slot in range(len(index.logs)):
        of_log = index.blocks(slot)
        blocks.add(of_log.start, of_log.stop)
    return blocks.bytes
