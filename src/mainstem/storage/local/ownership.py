"""Who may act on an engine's store: one node alone, or the holder of a lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mainstem.model.errors import OwnershipLost


class Ownership(Protocol):
    """The right to decide and to answer, for as long as it lasts."""

    term: int
    """How often the store has changed hands: the leader epoch of its logs."""

    @property
    def is_over(self) -> bool:
        """Whether somebody else may decide by now."""

    def on_lost(self, callback: Callable[[OwnershipLost], None]) -> None:
        """Call once, when it ends against our will."""


class SoleOwnership:
    """Of a directory on a local disk: its lock keeps others out until the process ends, so that it is never lost."""

    term = 0
    is_over = False

    def on_lost(self, callback: Callable[[OwnershipLost], None]) -> None:
        """It never is."""
