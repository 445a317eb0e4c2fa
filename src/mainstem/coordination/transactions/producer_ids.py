"""Producer ids: never given twice, not after a crash.

A block is taken from the log at once and handed out from memory; what a stop leaves of it is not used again.
"""

from __future__ import annotations

from mainstem.storage.contract import Mutation

SCOPE = "producers"
BLOCK = 1_000
_NEXT_KEY = b"next_block"


class ProducerIds:
    """What is left of the block in hand."""

    def __init__(self) -> None:
        self._next_block = 0
        self._next = 0
        self._end = 0

    def take(self) -> int | None:
        """An id, or None when another block has to be decided first."""
        if self._next == self._end:
            return None
        taken = self._next
        self._next += 1
        return taken

    def decide_block(self) -> Mutation:
        """Claim the next block."""
        return Mutation(SCOPE, _NEXT_KEY, str(self._next_block + BLOCK).encode())

    def open_block(self) -> None:
        """The claim is durable: hand out from it."""
        self._next, self._end = self._next_block - BLOCK, self._next_block

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one mutation of the scope."""
        if key == _NEXT_KEY and value is not None:
            self._next_block = int(value)
