"""What a sequencer needs of the place where an engine keeps its logs."""

from __future__ import annotations

from typing import Protocol

from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.log_state import LogState


class GroupStore(Protocol):
    """Makes groups durable, and readable. Used on the engine's thread only."""

    def submit(self, group: CommitGroup) -> None:
        """Make the group durable by its rank, then call the sequencer's `durable`: in the order of submission, not at once."""

    def show(self, group: CommitGroup) -> None:
        """Make the batches of a durable group readable, move the ends of their logs, and note each log with the watches."""

    def log_trimmed(self, state: LogState) -> None:
        """The visible start of a log has moved; the batches of the group that moved it are shown after this."""

    def log_deleted(self, state: LogState) -> None:
        """A log is no longer visible."""
