"""Empty groups that prove the one before them.

A group says which groups are durable. So an idle log's last group is proven by an empty one: from then on damage to it is not
mistaken for a torn tail.
"""

from __future__ import annotations

from mainstem.storage.local.wal.writer import WalWriter
from mainstem.storage.runtime.runtime import Runtime, Timer
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.log_state import FLUSH_SYNC
from mainstem.storage.sequencer.sequencer import Sequencer


class Proofs:
    """Writes an empty group when a log has been idle for a while, or when its engine closes."""

    def __init__(
        self, runtime: Runtime, sequencer: Sequencer, writer: WalWriter, idle_ms: int, *, is_shipped: bool = False
    ) -> None:
        self._runtime = runtime
        self._sequencer = sequencer
        self._writer = writer
        self._idle_seconds = idle_ms / 1000
        self._is_shipped = is_shipped
        """Whether groups are read back from a store that tears none: they need no proof."""
        self._timer: Timer | None = None
        self._last_group = 0.0
        self.is_due = False
        """Whether a group was written since the last proof."""

    def group_written(self) -> None:
        """A group is durable: it is proven when no other follows."""
        if self._is_shipped:
            return
        self.is_due = True
        self._last_group = self._runtime.monotonic()
        if self._timer is None and not self._sequencer.is_closing:
            self._timer = self._runtime.call_later(self._idle_seconds, self._on_timer)

    def seal_active(self) -> None:
        """Begin another file with the next group: with an empty one, if no other comes."""
        self._writer.rolls_next = self.is_due = True
        if self._timer is None and not self._sequencer.is_closing:
            self._timer = self._runtime.call_later(self._idle_seconds, self._on_timer)

    def stop(self) -> None:
        """Wait for idle times no longer."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        self._timer = None
        if self._sequencer.end is not None or not self.is_due:
            return
        if self._runtime.monotonic() - self._last_group >= self._idle_seconds and self._sequencer.is_idle:
            self.prove()
        else:
            self._timer = self._runtime.call_later(self._idle_seconds, self._on_timer)

    def prove(self) -> None:
        """Write an empty group; what was not synced before is synced first."""
        self.is_due = False
        group = CommitGroup()
        group.rank = FLUSH_SYNC
        if self._writer.proven < self._writer.last_sequence:
            self._sequencer.begin_after(self._writer.sync, group)
        else:
            self._sequencer.begin(group)
