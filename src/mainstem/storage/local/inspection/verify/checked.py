"""How much was looked at: a clean result says little without it."""

from __future__ import annotations

import msgspec


class Checked(msgspec.Struct):
    """Counts of one verification."""

    files: int = 0
    bytes: int = 0
    groups: int = 0
    batches: int = 0
    blocks: int = 0
    key_tables: int = 0
    state_items: int = 0

    def add_file(self, size: int) -> None:
        """One more file."""
        self.files += 1
        self.bytes += size
