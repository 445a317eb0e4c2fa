"""Where the write-ahead log goes beside the local disk, if it goes anywhere: a narrow port of the writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mainstem.storage.contract import Buffer
from mainstem.storage.runtime.runtime import Done


class Shipping(Protocol):
    """Takes each group as it was encoded, and says when the machine is no longer needed to keep it.

    Where there is one, the local file is a cache: a group is durable when it was shipped, whatever the flush policy says.
    """

    def ship(self, sequence: int, generation: int, position: int, parts: Sequence[Buffer], done: Done[None]) -> None:
        """Keep a group. `done` is called in the order of the groups; an error is final, and the last that is told."""

    def merged(self, last: int) -> None:
        """Groups up to this one are in runs and state runs that a durable commit names: they are needed no longer."""

    def close(self, then: Callable[[], None]) -> None:
        """Begin nothing more; call when nothing is under way."""
