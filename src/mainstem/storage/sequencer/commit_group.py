"""What will be written together: sequenced, not yet durable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainstem.storage.answer import Answer
from mainstem.storage.contract import Buffer
from mainstem.storage.sequencer.entries import StateItem
from mainstem.storage.sequencer.log_state import FLUSH_OS, LogState

DataEntry = tuple[int, int, int, int, int, int, LogState, Buffer]
"""base, time, size, count, crc, flags, state, buffer: a tuple, because one is made per batch."""

RefEntry = tuple[int, int, int, int, int, int, int, int, LogState, int]
"""log, base, time, source, source base, size, count, crc, state, index of the DataEntry."""


class CommitGroup:
    """Commits of one group, in order."""

    __slots__ = (
        "answers",
        "body",
        "bytes",
        "effects",
        "entries",
        "is_urgent",
        "place",
        "rank",
        "refs",
        "sequence",
        "state",
    )

    def __init__(self) -> None:
        self.entries: list[DataEntry] = []
        self.refs: list[RefEntry] = []
        self.state: list[StateItem] = []
        self.effects: list[Callable[[], None]] = []
        """What becomes visible besides batches, in order."""
        self.answers: list[tuple[Answer[Any], Any]] = []
        self.body: Sequence[Buffer] = ()
        """The batches as they are written, small ones joined; set when the group is encoded."""
        self.place = 0
        """Where in the store the batches lie; set when the group is durable."""
        self.bytes = 0
        self.is_urgent = False
        """Whether somebody waits for it who is not patient."""
        self.rank = FLUSH_OS
        self.sequence = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.entries or self.state or self.refs)
