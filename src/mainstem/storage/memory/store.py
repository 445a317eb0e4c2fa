"""Batches in memory, as a group store: a group is durable in the next turn."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from mainstem.storage.contract import Buffer
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.log_state import LogState
from mainstem.storage.sequencer.sequencer import Sequencer
from mainstem.wire.record_batch import place_batch, read_header


class MemoryLog:
    """The batches of one log, in order."""

    __slots__ = ("bases", "batches", "times")

    def __init__(self) -> None:
        self.bases: list[int] = []
        self.batches: list[Buffer] = []
        self.times: list[int] = []

    def nexts(self) -> Iterator[int]:
        """Offset after each batch."""
        for batch in self.batches:
            yield read_header(batch).next_offset


class MemoryStore:
    """The logs of one engine, by number. It is the GroupStore of the sequencer."""

    def __init__(self, runtime: Runtime, sequencer: Sequencer) -> None:
        self._runtime = runtime
        self._sequencer = sequencer
        self._visible = sequencer.ledger.visible
        self.logs: dict[int, MemoryLog] = {}

    def submit(self, group: CommitGroup) -> None:
        """There is nothing to wait for but the next turn."""
        self._runtime.call_soon(lambda: self._sequencer.durable(group))

    def show(self, group: CommitGroup) -> None:
        """Keep the batches; a reference becomes a copy with its own offsets."""
        shown = [
            (base, time, size, count, state, buffer) for base, time, size, count, _, _, state, buffer in group.entries
        ]
        for _, base, time, _, _, size, count, _, state, place in group.refs:
            copy = bytearray(group.entries[place][7])
            place_batch(copy, 0, base, 0)
            shown.append((base, time, size, count, state, copy))
        if group.refs:
            shown.sort(key=itemgetter(0))
        for entry in shown:
            self._keep(*entry)

    def _keep(self, base: int, time: int, size: int, count: int, state: LogState, buffer: Buffer) -> None:
        log = state.log
        state.end = base + count
        state.bytes += size
        if log not in self._visible:
            return
        stored = self.logs.setdefault(log, MemoryLog())
        stored.bases.append(base)
        stored.batches.append(buffer)
        stored.times.append(time)
        if state.watchers is not None:
            self._sequencer.watches.note(state)

    def log_trimmed(self, state: LogState) -> None:
        """What lies below the start goes with the next maintenance."""

    def log_deleted(self, state: LogState) -> None:
        """Forget its batches."""
        self.logs.pop(state.log, None)
